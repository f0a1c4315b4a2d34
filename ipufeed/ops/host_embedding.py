"""Tables on the host that programs look up and update while they run.

    with embedding.register(session):        the table is copied from its variable
        session.run(program)                 lookup: rows of it; its gradient: an update
                                             ... and back at the end

A lookup has the scalar variable `<name>/__dummy` as an input. Its gradient is zero, and the
computation of that gradient updates the table: without an optimizer the table is constant.

Threads: programs, replicas and stages may use a table at the same time; a lookup is atomic,
and so is an update.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from ipufeed.checks import flags_checked
from ipufeed.ops import host_calls
from ipufeed.tf_types import DType, Nest, Shape, Tensor, TensorLike, Variable

STRATEGIES = ("TOKEN", "ENCODING")


class HostEmbeddingOptimizerSpec:
    """Updates with stochastic gradient descent: table[id] -= learning_rate * gradient.

    Args:
        learning_rate: A Python number. 0: the table is not trained.
        optimizer_name: A label, without an effect.
    """

    def __init__(self, learning_rate: float, optimizer_name: str | None = None) -> None:
        self._learning_rate = float(learning_rate)
        self._optimizer_name = optimizer_name

    def get_learning_rate(self) -> float:
        """Returns the learning rate."""
        return self._learning_rate

    def get_accumulation_factor(self) -> int:
        """Returns the number of a replica's updates that are applied together: 1."""
        return 1

    def create_slot_variables(
        self, embedding_tensor: Variable, name: str
    ) -> list[Tensor]:
        """Returns the optimizer's variables: none."""
        del embedding_tensor, name
        return []


class HostEmbeddingSGDGAOptimizerSpec(HostEmbeddingOptimizerSpec):
    """Accumulates the updates of a replica and applies them together.

    Args:
        learning_rate: See HostEmbeddingOptimizerSpec.
        accumulation_factor: The number of updates that are applied together: the
            mini-batches of a weight update. 1: each is applied at once.

    Raises:
        ValueError: The factor is below 1.
    """

    def __init__(self, learning_rate: float, accumulation_factor: int) -> None:
        super().__init__(learning_rate)
        if accumulation_factor < 1:
            raise ValueError(
                f"accumulation_factor must be at least 1, got {accumulation_factor}."
            )
        self._accumulation_factor = int(accumulation_factor)

    def get_accumulation_factor(self) -> int:
        """Returns the factor."""
        return self._accumulation_factor


class _Table:
    def __init__(self, rows: np.ndarray[Any, Any]) -> None:
        self.rows = rows
        self.lock = threading.Lock()


_lock = threading.Lock()
_tables: dict[str, _Table] = {}


class HostEmbedding:
    """A table on the host; create_host_embedding creates one with its variable.

    Args:
        name: The table's id.
        embedding_tensor: A variable, [tokens, width].
        partition_strategy: "TOKEN" or "ENCODING": its partition over an IPU's hosts. It
            does not change results.
        optimizer_spec: The optimizer. Default: none, the table is constant.

    Raises:
        ValueError: An argument is of another type.
    """

    def __init__(
        self,
        name: str,
        embedding_tensor: Variable,
        partition_strategy: str = "TOKEN",
        optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    ) -> None:
        import tensorflow as tf

        if not isinstance(embedding_tensor, (tf.Tensor, tf.Variable)):
            raise ValueError(
                "HostEmbedding embedding_tensor is not a tensorflow tensor, got "
                f"{type(embedding_tensor).__name__}."
            )
        if optimizer_spec is not None and not isinstance(
            optimizer_spec, HostEmbeddingOptimizerSpec
        ):
            raise ValueError(
                "HostEmbedding optimizer_spec is not a HostEmbeddingOptimizerSpec or None, "
                f"got {type(optimizer_spec).__name__}."
            )
        if partition_strategy not in STRATEGIES:
            raise ValueError(
                f"Unknown partition strategy {partition_strategy}: it must be one of "
                f"{', '.join(STRATEGIES)}."
            )
        self._name = name
        self._tensor = embedding_tensor
        self._spec = optimizer_spec
        self._own_dummy: Variable | None = None
        if self._is_trained() and tf.executing_eagerly():
            self._dummy()  # created on the device of the caller's scope

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Always raises NotImplementedError: use `register`."""
        raise NotImplementedError(
            "HostEmbedding.__call__ is not supported. Please use the context manager "
            "created with HostEmbedding.register."
        )

    def get_embedding_tensor(self) -> Variable:
        """Returns the variable: the table before a registration and after it."""
        return self._tensor

    @contextlib.contextmanager
    def register(self, session: Any = None) -> Iterator[Variable]:
        """Registers the table for programs within this context, which gives the variable.

        The table is copied from the variable, and back at the end, also after an
        exception.

        Args:
            session: The program's session, in version 1 graphs.

        Raises:
            ValueError: There is no session outside of eager mode.
            tf.errors.FailedPreconditionError: The table is registered already.
        """
        import tensorflow as tf

        if session is None and not tf.executing_eagerly():
            raise ValueError(
                "HostEmbedding.register requires a session when eager execution is "
                "disabled."
            )
        found = self._tensor.numpy() if session is None else session.run(self._tensor)
        table = _Table(np.array(found))
        with _lock:
            if self._name in _tables:
                raise tf.errors.FailedPreconditionError(
                    None,
                    None,
                    f"Cannot register host embedding with id='{self._name}' it already "
                    "exists!",
                )
            _tables[self._name] = table
        try:
            yield self._tensor
        finally:
            with _lock:
                _tables.pop(self._name, None)
            if session is None:
                if isinstance(self._tensor, tf.Variable):
                    self._tensor.assign(table.rows)
            else:
                self._tensor.load(table.rows, session)

    @flags_checked
    def lookup(self, indices: TensorLike, clip_indices: bool = True) -> Tensor:
        """Builds the lookup of rows, which runs in program order.

        Args:
            indices: Integers of a defined shape.
            clip_indices: Whether an id outside of the table is replaced by its nearest
                id. Else it is an error (tf.errors.InvalidArgumentError).

        Returns:
            indices.shape + [width].
        """
        import tensorflow as tf

        indices = tf.cast(tf.convert_to_tensor(indices), tf.int32)
        tokens, width = self._tensor.shape
        if clip_indices:
            indices = tf.clip_by_value(indices, 0, tokens - 1)
        gives = [(self._tensor.dtype, [*indices.shape, width])]
        if self._spec is None or not self._is_trained():
            (rows,) = host_calls.call("embedding_lookup", self._name, [indices], gives)
            return rows
        text = "\0".join(
            (
                self._name,
                repr(self._spec.get_learning_rate()),
                str(self._spec.get_accumulation_factor()),
            )
        )

        def looked_up(dummy: Tensor, ids: Tensor) -> Nest:
            def gradient(dy: Tensor) -> tuple[Tensor, None]:
                (zero,) = host_calls.call(
                    "embedding_update",
                    text,
                    [ids, dy],
                    [(dummy.dtype, [])],
                    has_state=True,
                )
                return zero, None

            (rows,) = host_calls.call("embedding_lookup", self._name, [ids], gives)
            return rows, gradient

        return tf.custom_gradient(looked_up)(
            tf.convert_to_tensor(self._dummy()), indices
        )

    def _is_trained(self) -> bool:
        return self._spec is not None and self._spec.get_learning_rate() != 0

    def _dummy(self) -> Variable:
        """Returns the variable whose gradient updates the table."""
        import tensorflow as tf

        v1 = tf.compat.v1
        if v1.executing_eagerly_outside_functions():
            if self._own_dummy is None:
                with tf.init_scope():
                    self._own_dummy = tf.Variable(0.0, name=f"{self._name}/__dummy")
            return self._own_dummy
        with v1.variable_scope("", reuse=v1.AUTO_REUSE, use_resource=True):
            return v1.get_variable(
                f"{self._name}/__dummy",
                [],
                tf.float32,
                v1.zeros_initializer(),
                use_resource=True,
            )


def create_host_embedding(
    name: str,
    shape: Shape,
    dtype: DType,
    partition_strategy: str = "TOKEN",
    optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    initializer: Any = None,
) -> HostEmbedding:
    """Creates a table on the host, and its variable on the CPU.

    Args:
        name: The name of the table and the variable.
        shape: [tokens, width].
        dtype: float16, float32 or int32.
        partition_strategy: See HostEmbedding.
        optimizer_spec: See HostEmbedding.
        initializer: A tensor, or an initializer. Default: zeros.

    Raises:
        ValueError: The shape, or another argument; see HostEmbedding.
    """
    import tensorflow as tf

    shape = tf.TensorShape(shape)
    if shape.rank != 2 or not shape.is_fully_defined():
        raise ValueError(
            f"The shape of a host embedding must be [tokens, width], got {shape}."
        )
    dtype = tf.as_dtype(dtype)
    v1 = tf.compat.v1
    with tf.device("cpu"):
        if v1.executing_eagerly_outside_functions():
            if initializer is None:
                value = tf.zeros(shape, dtype)
            elif callable(initializer):
                value = initializer(shape, dtype)
            else:
                value = tf.cast(initializer, dtype)
            variable = tf.Variable(value, name=name, trainable=False)
        else:
            is_value = initializer is not None and not callable(initializer)
            variable = v1.get_variable(
                name,
                None if is_value else shape.as_list(),
                dtype,
                tf.cast(initializer, dtype)
                if is_value
                else initializer or v1.zeros_initializer(),
                trainable=False,
                use_resource=True,
            )
    return HostEmbedding(name, variable, partition_strategy, optimizer_spec)


def _table(name: str) -> _Table:
    """Returns a registered table.

    Raises:
        tf.errors.FailedPreconditionError: It is not registered.
    """
    with _lock:
        table = _tables.get(name)
    if table is None:
        from tensorflow.python.framework import errors

        raise errors.FailedPreconditionError(
            None,
            None,
            f"Host embedding interface with id='{name}' not registered. Did you run the "
            "associated host_embedding op in the session?",
        )
    return table


def _check_ids(ids: np.ndarray[Any, Any], tokens: int, name: str) -> None:
    if ids.size and not (ids.min() >= 0 and ids.max() < tokens):
        from tensorflow.python.framework import errors

        wrong = ids[(ids < 0) | (ids >= tokens)].flat[0]
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The host embedding '{name}' has the ids 0 to {tokens - 1}, got {wrong}.",
        )


@host_calls.handler("embedding_lookup")
def _lookup(call: host_calls.Call) -> None:
    table = _table(call.text)
    (ids,) = call.inputs
    _check_ids(ids, len(table.rows), call.text)
    with table.lock:
        np.take(table.rows, ids, axis=0, out=call.outputs[0], mode="clip")


@host_calls.handler("embedding_update")
def _update(call: host_calls.Call) -> None:
    name, rate, factor = call.text.split("\0")
    table = _table(name)
    ids, gradients = call.inputs
    _check_ids(ids, len(table.rows), name)
    call.outputs[0][...] = 0
    step = (-float(rate) * gradients).astype(table.rows.dtype)
    kept: list[Any] = [(ids, step)]
    if int(factor) > 1:
        kept = host_calls.state(call, "embedding", list)
        kept.append((ids.copy(), step))
        if len(kept) < int(factor):
            return
    with table.lock:
        for each_ids, each_step in kept:
            np.add.at(table.rows, each_ids, each_step)
    if int(factor) > 1:
        kept.clear()
