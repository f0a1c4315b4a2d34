"""The data of one call: a dataset for an infeed, and its iterators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipufeed.device.log import LOGGER
from ipufeed.keras.checks.batches import BatchCheck
from ipufeed.keras.kit import Source
from ipufeed.keras.state import ModelState
from ipufeed.keras.steps import Steps, count_steps
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.iterators import IPUIterator
from ipufeed.tf_types import Dataset, Nest, Spec, Tensor

# Infeeds have no 64-bit dtypes.
NARROWER = {"float64": "float32", "int64": "int32", "uint32": "int32"}


class Feed:
    """A dataset for an infeed, its steps, and its successive iterators.

    Args:
        state: Of the model.
        source: The data.
        dataset: The result of `feedable`.
        steps: Of an epoch, per replica, from the caller; None: all data.
        steps_per_execution: The argument of `compile`.
        epochs: Of the call.

    Raises:
        ValueError: See count_steps.
    """

    def __init__(
        self,
        state: ModelState,
        source: Source,
        dataset: Dataset,
        steps: int | None,
        steps_per_execution: int,
        epochs: int = 1,
    ) -> None:
        self.dataset = dataset
        replicas = state.replicas()
        # If each epoch drops a remainder, each has its own iterator.
        whole = steps is not None or not source.size or source.size % replicas == 0
        one = source.holds_epochs and whole
        self._renewed = not one and (source.renewed or steps is None)
        self.steps: Steps = count_steps(
            source.size,
            steps,
            steps_per_execution,
            replicas,
            1 if self._renewed or one else epochs,
        )
        if source.size is None and not source.endless:
            LOGGER.info(
                "The size of the dataset is unknown. It must give %d batches in an epoch.",
                self.steps.epoch * replicas,
            )
        self._state = state
        self._source = source
        self._iterator: IPUIterator | None = None
        self._started: IPUInfeedQueue | None = None
        self._waited_before = 0.0

    def begin_call(self, mode: str) -> None:
        """Notifies the source before the first epoch of a call."""
        self._source.call_begins(mode)

    def end_epoch(self) -> None:
        """Notifies the source if an epoch has used all its batches."""
        size = self._source.size
        if size is not None and self.steps.epoch * self._state.replicas() >= size:
            self._source.epoch_done()

    def iterator(self) -> IPUIterator:
        """Returns the iterator of the next epoch; all have the same type."""
        if self._iterator is None or self._renewed:
            self.close()
            self._source.epoch_begins()
            ordinal = self._state.strategy.device_ordinal
            self._iterator = IPUIterator(
                self.dataset, **{"device_ordinal": ordinal, **self._state.infeed}
            )
        self._begin_epoch()
        return self._iterator

    def start(self, infeed: IPUInfeedQueue) -> None:
        """Starts a program's queue on the data of the next epoch."""
        if self._started is infeed and not self._renewed:
            self._begin_epoch()
            return
        self.close()
        self._source.epoch_begins()
        infeed._restart(self.dataset)
        self._started = infeed
        self._begin_epoch()

    def waited_s(self) -> float:
        """Returns the seconds that programs waited for data in this or the last epoch."""
        queue = self._started
        if self._iterator is not None:
            queue = self._iterator._infeed_queue
        total = 0.0 if queue is None else queue.stats().device_waited_s
        return max(0.0, total - self._waited_before)

    def _begin_epoch(self) -> None:
        """Records the wait time of earlier epochs on the same queue."""
        self._waited_before = 0.0
        self._waited_before = self.waited_s()

    def explain(self, error: Exception) -> Exception:
        """Returns the error of the data behind an error of a program, or the latter.

        A generator's batch that differs from the first one; or data that ended early.
        """
        import tensorflow as tf

        check, text = self._source.check, str(error)
        if "infeed dataset iterator has failed" in text and check and check.error:
            return check.error
        if "Infeed dataset iterator out of range" not in text:
            return error
        replicas = self._state.replicas()
        given = f" after {check.count} batches" if check else ""
        ended: Exception = tf.errors.OutOfRangeError(
            *(None, None),
            f"The data have ended{given}, in an epoch of {self.steps.epoch} steps, which "
            f"takes {self.steps.epoch * replicas} batches. All epochs of a call take "
            "theirs from one iterator if the steps are given. Repeat the data, or give a "
            f"smaller `steps_per_epoch`, `validation_steps` or `steps`. {text}",
        )
        return ended

    def close(self) -> None:
        """Deletes the iterator's queue, or stops the program's; idempotent."""
        started, self._started = self._started, None
        if started is not None:
            started.deleter  # noqa: B018 (acts when it is read)
            self._source.epoch_ends()
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            iterator._infeed_queue.deleter  # noqa: B018 (acts when it is read)
            self._source.epoch_ends()


def shuffle_again(dataset: Dataset) -> None:
    """Advances a dataset's shuffle order by one iterator.

    Keras makes iterators that it does not use; each changes the order of a dataset that
    shuffles. With the same number of iterators an epoch has the order of stock Keras.
    """
    import tensorflow as tf
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    if _shuffles(dataset):
        with tf.device("/device:CPU:0"):
            OwnedIterator(dataset)  # `iter` would make a feed in the strategy's scope


def _shuffles(dataset: Dataset) -> bool:
    """Whether a dataset contains a shuffle."""
    own = "shuffle" in type(dataset).__name__.lower()
    return own or any(_shuffles(each) for each in dataset._inputs())


def feedable(source: Source) -> Dataset:
    """Returns the dataset of a source, converted for an infeed.

    Raises:
        ValueError: The data have a partial batch, or an unknown dimension.
    """
    if source.partial_batch is not None:
        raise ValueError(
            "The provided set of data has a partial batch, which could result in data "
            "being dropped. Either adjust the `batch_size` of your model (currently "
            f"set to {source.partial_batch}) or pad your dataset to ensure there are "
            "no partial batches."
        )
    dataset = narrow(source.dataset)
    check_shapes(dataset.element_spec)
    return dataset


def with_shapes(
    dataset: Dataset, batch: Nest, last: Nest = None, check: BatchCheck | None = None
) -> tuple[Dataset, int | None]:
    """Sets the shapes of a generator's dataset to those of its first batch.

    Args:
        dataset: Its elements have unknown dimensions.
        batch: The first batch, as arrays.
        last: The last batch, if it is known without reading all.
        check: Of the batches; needed with `last`.

    Returns:
        The dataset; and the batch size if the last batch is smaller, else None.
    """
    import tensorflow as tf

    spec = dataset.element_spec
    specs = tf.nest.flatten(spec)
    first = [np.shape(each) for each in tf.nest.flatten(batch) if each is not None]
    dense = all(isinstance(each, tf.TensorSpec) for each in specs)
    if not dense or len(first) != len(specs):
        return dataset, None  # the infeed raises for what it cannot carry
    if last is not None and check is not None and check.is_smaller(last):
        return dataset, int(first[0][0])

    def fixed(*element: Nest) -> Any:
        whole = element if isinstance(spec, tuple) else element[0]
        flat = [
            tf.ensure_shape(each, shape)
            for each, shape in zip(tf.nest.flatten(whole), first, strict=True)
        ]
        return tf.nest.pack_sequence_as(spec, flat)

    return dataset.map(fixed), None


def zeros_of(dataset: Dataset) -> Nest:
    """Returns an element of zeros, on the host."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        return tf.nest.map_structure(
            lambda spec: tf.zeros(spec.shape, spec.dtype), dataset.element_spec
        )


def narrow(dataset: Dataset) -> Dataset:
    """Casts a dataset's float64 to float32, and int64 and uint32 to int32.

    A prefetch at its end is repeated after the cast. An integer that does not fit is an
    InvalidArgumentError of the dataset.
    """
    import tensorflow as tf

    specs = tf.nest.flatten(dataset.element_spec)
    dtypes = [getattr(spec, "dtype", None) for spec in specs]
    if not any(each is not None and each.name in NARROWER for each in dtypes):
        return dataset
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return dataset  # the infeed raises for what it cannot carry

    def cast(*element: Nest) -> Any:
        whole = element if isinstance(dataset.element_spec, tuple) else element[0]
        flat = [
            _narrowed(each, f"Component {i} of the data")
            for i, each in enumerate(tf.nest.flatten(whole))
        ]
        return tf.nest.pack_sequence_as(whole, flat)

    narrowed = dataset.map(cast, num_parallel_calls=tf.data.AUTOTUNE)
    if type(dataset).__name__ != "_PrefetchDataset":
        return narrowed
    buffered: Any = dataset  # only a prefetch has the size
    return narrowed.prefetch(int(tf.get_static_value(buffered._buffer_size)))


def _narrowed(x: Tensor, what: str) -> Tensor:
    """Casts a tensor; an integer that does not fit is an InvalidArgumentError."""
    import tensorflow as tf

    narrower = NARROWER.get(x.dtype.name)
    if narrower is None:
        return x
    result = tf.cast(x, narrower)
    if not x.dtype.is_integer:
        return result
    fits = tf.reduce_all(tf.equal(tf.cast(result, x.dtype), x))
    text = _misfit(what, x.dtype.name)
    with tf.control_dependencies([tf.debugging.Assert(fits, [text])]):
        return tf.identity(result)


def _misfit(what: str, dtype: str) -> str:
    return (
        f"{what}, of {dtype}, must have values that fit int32, which IPUs compute with, "
        "got larger ones. Make them smaller before the model, as with a hash, or feed "
        "float32."
    )


def narrow_arrays(arguments: Nest) -> Nest:
    """Casts arrays and tensors of a call's arguments as `narrow` does.

    Raises:
        ValueError: An integer of an array does not fit.
        tf.errors.InvalidArgumentError: One of a tensor.
    """
    import tensorflow as tf

    def cast(each: Nest) -> Nest:
        if not isinstance(each, (np.ndarray, np.generic, tf.Tensor)):
            return each
        if isinstance(each, tf.Tensor):
            with tf.device("/device:CPU:0"):
                return _narrowed(each, "A tensor")
        narrower = NARROWER.get(each.dtype.name)
        if narrower is None:
            return each
        result = each.astype(narrower)
        if each.dtype.kind in "iu" and not np.array_equal(result, each):
            raise ValueError(_misfit("An array", each.dtype.name))
        return result

    return tf.nest.map_structure(cast, arguments)


def check_shapes(element_spec: Spec) -> None:
    """Raises ValueError if a dimension of an element is unknown."""
    import tensorflow as tf

    for spec in tf.nest.flatten(element_spec):
        shape = getattr(spec, "shape", None)
        if shape is not None and not shape.is_fully_defined():
            raise ValueError(
                f"The provided set of data contains a shape {shape} which is not fully "
                "defined. Executing on IPU requires all dataset elements to have fully "
                "defined shapes. If using batch() make sure to set `drop_remainder=True`. "
                "Where a later map() loses the shape, set it again with tf.ensure_shape()."
            )
