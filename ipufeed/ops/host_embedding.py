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
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from ipufeed.checks import as_int, flags_checked
from ipufeed.ops import host_calls
from ipufeed.ops.host import tables
from ipufeed.ops.host.table_arguments import (
    as_rate,
    as_table,
    check_name,
    check_table,
    maker,
)
from ipufeed.ops.host.table_copies import TableCopies
from ipufeed.ops.rows import as_ids, check_shape
from ipufeed.queues.placement import current_ordinal
from ipufeed.tf_types import DType, Nest, Shape, Tensor, TensorLike, Variable

STRATEGIES = ("TOKEN", "ENCODING")


class HostEmbeddingOptimizerSpec:
    """Updates with stochastic gradient descent: table[id] -= learning_rate * gradient.

    Args:
        learning_rate: A finite number. 0: the table is not trained.
        optimizer_name: A label, without an effect.

    Raises:
        TypeError: The rate is not a number.
        ValueError: The rate is not finite.
    """

    def __init__(self, learning_rate: float, optimizer_name: str | None = None) -> None:
        del optimizer_name
        self._learning_rate = as_rate(learning_rate)

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
        TypeError: The factor is not an int, or the rate not a number.
        ValueError: The factor is below 1, or the rate is not finite.
    """

    def __init__(self, learning_rate: float, accumulation_factor: int) -> None:
        super().__init__(learning_rate)
        self._accumulation_factor = as_int("accumulation_factor", accumulation_factor)
        if self._accumulation_factor < 1:
            raise ValueError(
                f"accumulation_factor must be at least 1, got {accumulation_factor}."
            )

    def get_accumulation_factor(self) -> int:
        """Returns the number of updates that are applied together."""
        return self._accumulation_factor


class HostEmbedding:
    """A table on the host; create_host_embedding creates one with its variable.

    Args:
        name: The table's id.
        embedding_tensor: A variable, [tokens, width], of float16, float32, int32 or
            uint32.
        partition_strategy: "TOKEN" or "ENCODING": its partition over an IPU's hosts. It
            does not change results.
        optimizer_spec: The optimizer. Default: none, the table is constant.

    Raises:
        TypeError: The name is not a str, or the table has another dtype.
        ValueError: The table has another shape, or another argument is of another type.
    """

    def __init__(
        self,
        name: str,
        embedding_tensor: Variable,
        partition_strategy: str = "TOKEN",
        optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    ) -> None:
        if not isinstance(embedding_tensor, (tf.Tensor, tf.Variable)):
            raise ValueError(
                "HostEmbedding embedding_tensor is not a tensorflow tensor, got "
                f"{type(embedding_tensor).__name__}."
            )
        _check_how(partition_strategy, optimizer_spec)
        check_name(name)
        check_table(embedding_tensor.shape, embedding_tensor.dtype)
        self._name = name
        self._tensor = embedding_tensor
        self._spec = optimizer_spec
        # By the IPU's ordinal; None: the host.
        self._dummies: dict[int | None, Variable] = {}
        if self._is_trained() and tf.executing_eagerly():
            self._dummy()  # a program without a function can then optimize it

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Always raises NotImplementedError: use `register`."""
        raise NotImplementedError(
            "HostEmbedding.__call__ is not supported. Please use the context manager "
            "created with HostEmbedding.register."
        )

    def get_embedding_tensor(self) -> Variable:
        """Returns the variable, whose reads give the table's rows of then."""
        return self._tensor

    @contextlib.contextmanager
    def register(self, session: Any = None) -> Iterator[HostEmbedding]:
        """Registers the table for programs within this context, which gives `self`.

        The table is copied from the variable, and back before anything reads the
        variable, such as a saver of checkpoints, and at the end, also after an exception.

        Args:
            session: The program's session, in version 1 graphs.

        Raises:
            TypeError: `session` is not a session.
            ValueError: There is no session outside of eager mode.
            tf.errors.FailedPreconditionError: The table is registered already.
        """
        if session is None and not tf.executing_eagerly():
            raise ValueError(
                "HostEmbedding.register requires a session when eager execution is "
                "disabled."
            )
        if session is not None and not callable(getattr(session, "run", None)):
            raise TypeError(
                "`session` must be a tf.compat.v1.Session, got "
                f"{type(session).__name__} {session!r}."
            )
        found = self._tensor.numpy() if session is None else session.run(self._tensor)
        table = tables.add(self._name, np.array(found))
        try:
            with TableCopies(table, self._tensor, session).before_reads():
                yield self
        finally:
            tables.remove(self._name)

    @flags_checked
    def lookup(self, indices: TensorLike, clip_indices: bool = True) -> Tensor:
        """Builds the lookup of rows, which runs in program order.

        Args:
            indices: Integers of a defined shape.
            clip_indices: Whether an id outside of the table is replaced by its nearest
                id. Else it is an error (tf.errors.InvalidArgumentError).

        Returns:
            indices.shape + [width].

        Raises:
            TypeError: The ids are not integers.
            ValueError: Their shape is not defined.
        """
        indices = as_ids("indices", indices)
        check_shape("indices", indices)
        tokens, width = self._tensor.shape.as_list()
        if clip_indices:
            low, high = (tf.constant(each, indices.dtype) for each in (0, tokens - 1))
            indices = tf.clip_by_value(indices, low, high)
        gives = [(self._tensor.dtype, [*indices.shape.as_list(), width])]
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
        """Returns the variable whose gradient updates the table.

        There is one for each IPU and one for the host: a compiled program reads only the
        variables of its own device, wherever the embedding was created.
        """
        v1 = tf.compat.v1
        if v1.executing_eagerly_outside_functions():
            place = current_ordinal()
            if place not in self._dummies:
                device = "/device:CPU:0" if place is None else f"/device:IPU:{place}"
                with tf.init_scope(), tf.device(device), v1.name_scope(None):
                    made = tf.Variable(0.0, name=f"{self._name}/__dummy")
                made._ipufeed_gradient_updates = True
                self._dummies[place] = made
            return self._dummies[place]
        with v1.variable_scope("", reuse=v1.AUTO_REUSE, use_resource=True):
            made = v1.get_variable(
                f"{self._name}/__dummy",
                [],
                tf.float32,
                v1.zeros_initializer(),
                use_resource=True,
            )
        made._ipufeed_gradient_updates = True  # for pipelines
        return made


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
        shape: [tokens, width], both at least 1.
        dtype: float16, float32, int32 or uint32.
        partition_strategy: See HostEmbedding.
        optimizer_spec: See HostEmbedding.
        initializer: A tensor of that shape, which is cast to the dtype, or an initializer.
            Default: zeros.

    Raises:
        TypeError: The name, the dtype or the initializer.
        ValueError: The table's or the initializer's shape, or another argument; see
            HostEmbedding.
    """
    check_name(name)
    _check_how(partition_strategy, optimizer_spec)  # before a variable has the name
    shape, dtype = as_table(shape, dtype)
    v1 = tf.compat.v1
    with tf.device("cpu"):
        make = maker(initializer, shape, dtype)
        if v1.executing_eagerly_outside_functions():
            variable = tf.Variable(make(), name=name, trainable=False)
        else:
            variable = v1.get_variable(
                name,
                shape.as_list(),
                dtype,
                lambda *_, **__: make(),
                trainable=False,
                use_resource=True,
            )
    return HostEmbedding(name, variable, partition_strategy, optimizer_spec)


def _check_how(partition_strategy: object, optimizer_spec: object) -> None:
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


@host_calls.handler("embedding_lookup")
def _lookup(call: host_calls.Call) -> None:
    table = tables.find(call.text)
    (ids,) = call.inputs
    table.check(ids)
    with table.lock:
        np.take(table.rows, ids, axis=0, out=call.outputs[0], mode="clip")


@host_calls.handler("embedding_update")
def _update(call: host_calls.Call) -> None:
    name, rate, factor = call.text.split("\0")
    table = tables.find(name)
    ids, gradients = call.inputs
    table.check(ids)
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
        table.changed = True
    if int(factor) > 1:
        kept.clear()
