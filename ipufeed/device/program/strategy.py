"""IPUStrategy: programs of TensorFlow 2 run on one IPU."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.one_device_strategy import OneDeviceExtended

from ipufeed.checks import arrays_of_rows, check_function, flags_checked
from ipufeed.device.program import executor, float64, outside_compilation
from ipufeed.device.program.host_iterator import HostDataset
from ipufeed.device.program.replication import refuse_replicas
from ipufeed.device.program.scopes import check_device
from ipufeed.device.system.device_names import check_host
from ipufeed.device.system.system import require_usable
from ipufeed.no_effect import no_effect
from ipufeed.once import once
from ipufeed.queues import interrupt
from ipufeed.queues.iterators import IPUOwnedIterator
from ipufeed.tf_patches import growing_arrays
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Dataset, Nest, Tensor


@dataclass
class Hooks:
    """Functions of packages above this one that a strategy calls; see ipufeed.connect.

    Attributes:
        extend_keras: Changes Keras, so that models created in a scope run on the IPU.
        reduce: Returns the sum of a tensor over the replicas, or with True the mean.
    """

    extend_keras: Callable[[], None] = lambda: None
    reduce: Callable[[Tensor, bool], Tensor] = lambda value, mean: value


hooks = Hooks()


class KerasExtensions:
    """A strategy's options for Keras models and datasets.

    Args:
        enable_dataset_iterators: See IPUStrategyV1.
        enable_keras_extensions: See IPUStrategyV1.

    Source: Graphcore's class of this name.
    """

    @flags_checked
    def __init__(
        self,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        self._enable_dataset_iterators = enable_dataset_iterators
        self._enable_keras_extensions = enable_keras_extensions


class IPUStrategyV1(tf.distribute.Strategy, KerasExtensions):  # type: ignore[misc]
    """Runs tf.functions on one IPU.

        strategy = IPUStrategy()
        with strategy.scope():
            variable = tf.Variable(0.0)             # lives on the IPU
            strategy.run(train, args=[iterator])    # a tf.function(jit_compile=True)

    Inside `scope()` variables and ops are on the IPU, and `iter(dataset)` returns an
    iterator that feeds it.

    Args:
        ipu_device: The IPU's name.
        cpu_device: The host's name. Another one has no effect, with a warning.
        enable_dataset_iterators: Whether `iter(dataset)` inside the scope feeds the IPU.
        enable_keras_extensions: Whether Keras models that are created in the scope train,
            evaluate and predict in compiled programs on the IPU (docs/keras.md). If not,
            Keras is unchanged.

    Raises:
        ValueError: `ipu_device` is not a usable IPU.

    Threads: any.
    """

    @flags_checked
    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        cpu_device: str = "/device:CPU:0",
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        KerasExtensions.__init__(
            self, enable_dataset_iterators, enable_keras_extensions
        )
        self._device_ordinal = check_device(ipu_device)
        check_host("IPUStrategy", "cpu_device", cpu_device)
        ipu_device = f"/device:IPU:{self._device_ordinal}"  # the normal form
        on_host = not (enable_keras_extensions and enable_dataset_iterators)
        super().__init__(self._make_extended(ipu_device, on_host))
        self._ipu_device = ipu_device
        # Functions with ops for the host, which cannot be compiled.
        self._on_host_too: weakref.WeakSet[Any] = weakref.WeakSet()
        # Function with jit_compile -> its clone for the executor.
        self._twins: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        interrupt.watch()  # before the first program, whose errors it explains
        if enable_dataset_iterators:
            _feed_iterated_datasets()
        if enable_keras_extensions:
            hooks.extend_keras()

    def _make_extended(self, device: str, on_host: bool) -> IPUExtended:
        """Returns the extended strategy; a subclass has its own."""
        return IPUExtended(self, device, on_host)

    @property
    def supports_loss_scaling(self) -> bool:
        """True: TensorFlow's loss scale optimizers work in the scope."""
        return True

    @property
    def device_ordinal(self) -> int:
        """The n of /device:IPU:n."""
        return self._device_ordinal

    def run(
        self, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None
    ) -> Nest:
        """Runs a function on the IPU and waits for its end.

        Args:
            fn: A tf.function, or an object whose `__call__` is one. With jit_compile=True
                it is one compiled program or an error; without it, ops that cannot be
                compiled run op by op.
            args: Its positional arguments, a list or tuple.
            kwargs: Its keyword arguments, a dict.
            options: A tf.distribute.RunOptions; no effect, with a warning.

        Returns:
            The function's results.

        Raises:
            ValueError: `fn` is a plain function, in eager mode.
            TypeError: `fn` is not a function, or `args` not a list or tuple; or an
                argument or a result is of float64: the program has not run.
            KeyboardInterrupt: Ctrl-C; the program is stopped, the device remains usable.
        """
        if not callable(fn):
            raise TypeError(f"`fn` must be a function, got {type(fn).__name__}.")
        if args is not None and not isinstance(args, (list, tuple)):
            raise TypeError(
                f"`args` must be a list or tuple, got {type(args).__name__}: for a "
                "single argument x it is (x,)."
            )
        called = fn.__call__  # of a tf.Module, for example, a tf.function
        if hasattr(called, "get_concrete_function"):
            fn = called
        if (
            tf.executing_eagerly()
            and not hasattr(fn, "get_concrete_function")
            and not (hasattr(fn, "structured_outputs"))
        ):
            raise ValueError(
                "IPUStrategyV1.run(fn, ...) does not support eager execution. Either "
                "convert `fn` with tf.function, or consider calling strategy.run inside "
                "a tf.function."
            )
        if options is not None:
            no_effect(
                "IPUStrategy.run(options=)",
                "tf.distribute.RunOptions concern the dynamic shapes of TPUs",
            )
        float64.refuse_inputs(args, kwargs)
        if not tf.executing_eagerly():  # the run comes later
            results = self._run(fn, tuple(args or ()), kwargs, options)
            float64.refuse_outputs(results)
            return results
        # Here, as the call of a concrete function would add to the error's text.
        if hasattr(fn, "structured_outputs"):
            float64.refuse_outputs_of(fn)
        with float64.refusing_outputs():
            return self._run(fn, tuple(args or ()), kwargs, options)

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Tensor:
        """Reduces a value over the strategy's one replica, and over its axes.

        Args:
            reduce_op: A tf.distribute.ReduceOp, or its name: "SUM" or "MEAN".
            value: A tensor, as `run` returns it.
            axis: The axis, or several, to reduce over, too. Default: None.

        Raises:
            TypeError: `reduce_op` is neither.
            ValueError: It is another name, or the value has no such axis.
        """
        kind = tf.distribute.ReduceOp
        names = ", ".join(each.value for each in kind)
        # TensorFlow's texts, and what there is.
        if isinstance(reduce_op, str):
            if reduce_op.upper() not in kind.__members__:
                raise ValueError(
                    f"{reduce_op.upper()!r} is not a valid ReduceOp. Give one of {names}."
                )
        elif not isinstance(reduce_op, kind):
            raise TypeError(
                "Expected `reduce_op` to be a `tf.distribute.ReduceOp`, not: "
                f"{reduce_op!r}. Give one of its members, or their names: {names}."
            )
        return super().reduce(reduce_op, value, axis)

    def experimental_make_numpy_dataset(
        self, numpy_input: Nest, session: Any = None
    ) -> Dataset:
        """Returns a dataset of arrays' rows, as a StrategyV1 of TensorFlow does.

        Args:
            numpy_input: A nest of arrays with the same number of rows.
            session: The session that holds the arrays in a version-1 graph.

        Raises TypeError for other objects, ValueError for different numbers of rows.
        """
        dataset: Dataset = self.extended.experimental_make_numpy_dataset(
            arrays_of_rows("numpy_input", numpy_input), session
        )
        return dataset

    def experimental_run_v2(self, fn: Any, args: Any = (), kwargs: Any = None) -> Nest:
        """Runs a function on the IPU: the name of `run` in TensorFlow 2.1."""
        return self.run(fn, args, kwargs)

    def _run(self, fn: Any, args: Any, kwargs: Any, options: Any) -> Nest:
        """Calls Strategy.run, with the executor's clone if `fn` cannot be compiled."""
        compiles = getattr(fn, "_jit_compile", False)
        if compiles and (
            executor.executor() == "tensorflow" or fn in self._on_host_too
        ):
            outside_compilation.refuse_precompile()
            if fn not in self._twins:
                self._twins[fn] = _executor_twin(fn)
            with outside_compilation.building(traced=True):
                self._refuse_replicas(self._twins[fn], args, kwargs)
                return super().run(self._twins[fn], args, kwargs, options)
        with (
            contextlib.suppress(outside_compilation.NeedsExecutor),
            outside_compilation.building(traced=True),
            growing_arrays.refused(compiles),
        ):
            return super().run(fn, args, kwargs, options)
        if not compiles:
            raise ValueError(
                "outside_compilation_scope in a tf.function(jit_compile=True) needs "
                "IPUStrategy.run or ipu_compiler.compile to run that function itself, "
                "and not one that calls it."
            )
        self._on_host_too.add(fn)
        return self._run(fn, args, kwargs, options)

    def _runs_compiled(self, fn: Any) -> bool:
        """Returns whether `run` compiles a tf.function instead of using the executor."""
        return (
            bool(getattr(fn, "_jit_compile", False))
            and executor.executor() != "tensorflow"
            and fn not in self._on_host_too
        )

    def _refuse_replicas(self, fn: Any, args: Any, kwargs: Any) -> None:
        """See replication.refuse_replicas; traces `fn` only if there are several IPUs."""
        if require_usable(self._device_ordinal).num_ipus == 1:
            return
        # A trace is that of the run only if it is in a replica of the strategy, too.
        traced = super().run(fn.get_concrete_function, args, kwargs)
        refuse_replicas(self._device_ordinal, traced.graph.get_operations())


IPUStrategy = IPUStrategyV1


def _executor_twin(fn: Any) -> Any:
    """Returns a clone of a tf.function that TensorFlow's executor runs."""
    twin = fn._clone(None)
    twin._jit_compile = False
    return twin


class IPUExtended(OneDeviceExtended):  # type: ignore[misc]
    """Places the ops of the strategy's scope on the IPU."""

    @flags_checked
    def __init__(
        self, strategy: IPUStrategyV1, device: str, on_host: bool = False
    ) -> None:
        super().__init__(strategy, device)
        self._default_device = device
        self._ordinal = check_device(device)
        self._iterates_on_host = on_host

    def _experimental_distribute_dataset(self, dataset: Dataset, options: Any) -> Any:
        """Returns the dataset itself, whose `iter` feeds the IPU, or one of the host."""
        if not isinstance(dataset, (tf.data.Dataset, HostDataset)):
            raise TypeError(
                f"`dataset` must be a tf.data.Dataset, got {type(dataset).__name__} "
                f"{dataset!r}. Of arrays make one with "
                "tf.data.Dataset.from_tensor_slices(arrays)."
            )
        return HostDataset(dataset) if self._iterates_on_host else dataset

    def _distribute_datasets_from_function(
        self, dataset_fn: Callable[..., Dataset], options: Any
    ) -> Any:
        """Returns the function's dataset for the only input pipeline."""
        check_function("dataset_fn", dataset_fn)
        dataset = dataset_fn(tf.distribute.InputContext())
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(
                "`dataset_fn` must return a tf.data.Dataset, got "
                f"{type(dataset).__name__} {dataset!r}."
            )
        return self._experimental_distribute_dataset(dataset, options)

    def _reduce_to(
        self, reduce_op: Any, value: Any, destinations: Any, options: Any
    ) -> Any:
        """Reduces a Keras optimizer's gradient over the replicas.

        An optimizer of TensorFlow 1 passes a variable as the destination: a
        CrossReplicaOptimizer reduces its gradients, or they are not reduced.
        """
        if (
            tf.executing_eagerly()
            or isinstance(destinations, tf.Variable)
            or require_usable(self._ordinal).num_ipus == 1
        ):
            return super()._reduce_to(reduce_op, value, destinations, options)
        dense = tf.convert_to_tensor(value)
        return hooks.reduce(dense, reduce_op == tf.distribute.ReduceOp.MEAN)


IPUExtendedV1 = IPUExtended


def current_strategy() -> IPUStrategyV1 | None:
    """Returns the IPUStrategy of the current scope, or None."""
    if not tf.distribute.has_strategy():
        return None
    strategy = tf.distribute.get_strategy()
    return strategy if isinstance(strategy, IPUStrategyV1) else None


def strategy_ordinal() -> int:
    """Returns the IPU of the current strategy, else 0."""
    strategy = current_strategy()
    return 0 if strategy is None else strategy.device_ordinal


@once
def _feed_iterated_datasets() -> None:
    """Makes `iter(dataset)` feed the IPU in the scope of a strategy with that option."""
    iterate = tf.data.Dataset.__iter__

    @functools.wraps(iterate)
    def iterate_on_ipu(dataset: Dataset) -> Iterator[Nest]:
        strategy = current_strategy()
        if (
            strategy is None
            or not strategy._enable_dataset_iterators
            or not tf.executing_eagerly()
        ):
            result: Iterator[Nest] = iterate(dataset)
            return result
        return IPUOwnedIterator(dataset=dataset)

    replace(tf.data.Dataset, "__iter__", iterate_on_ipu)
