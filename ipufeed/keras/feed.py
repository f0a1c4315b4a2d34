"""The data of one call: a dataset that an infeed can carry, and its iterators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipufeed.device.log import LOGGER
from ipufeed.keras.state import ModelState
from ipufeed.keras.steps import Steps, count_steps
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.iterators import IPUIterator
from ipufeed.tf_types import Dataset


@dataclass(frozen=True)
class Source:
    """What a kit makes of the data that Keras was given.

    Attributes:
        dataset: A tf.data.Dataset of batches.
        size: Batches in it; None if unknown or without an end.
        endless: Whether there is no end.
        partial_batch: The size of batches if the last one is smaller, else None.
        renewed: Whether each epoch begins with a new iterator.
        epoch_begins: Called before each iterator is made.
        epoch_ends: Called when an iterator is left.
    """

    dataset: Any
    size: int | None
    partial_batch: int | None
    renewed: bool
    endless: bool = False
    epoch_begins: Callable[[], None] = lambda: None
    epoch_ends: Callable[[], None] = lambda: None


class Feed:
    """A dataset that can be fed, its steps, and one iterator after the other over it.

    Args:
        state: Of the model.
        source: The data.
        dataset: What `feedable` has made of it.
        steps: Of an epoch, per replica, as the caller gave it; None: all data.
        steps_per_execution: What `compile` was given.
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
        self._renewed = source.renewed or steps is None
        self.steps: Steps = count_steps(
            source.size,
            steps,
            steps_per_execution,
            state.replicas(),
            1 if self._renewed else epochs,
        )
        if source.size is None and not source.endless:
            LOGGER.info(
                "The size of the dataset is unknown. It must give %d batches in an epoch.",
                self.steps.epoch * state.replicas(),
            )
        self._state = state
        self._source = source
        self._iterator: IPUIterator | None = None
        self._started: IPUInfeedQueue | None = None
        self._waited_before = 0.0

    def iterator(self) -> IPUIterator:
        """The iterator of the epoch that begins; all of them have the same type."""
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
        """Lets a queue of a program read the data of the epoch that begins."""
        if self._started is infeed and not self._renewed:
            self._begin_epoch()
            return
        self.close()
        self._source.epoch_begins()
        infeed._restart(self.dataset)
        self._started = infeed
        self._begin_epoch()

    def waited_s(self) -> float:
        """Seconds that programs have waited for the data of the epoch, or the last one."""
        queue = self._started
        if self._iterator is not None:
            queue = self._iterator._infeed_queue
        total = 0.0 if queue is None else queue.stats().device_waited_s
        return max(0.0, total - self._waited_before)

    def _begin_epoch(self) -> None:
        """Keeps what was waited before, on a queue that goes on."""
        self._waited_before = 0.0
        self._waited_before = self.waited_s()

    def close(self) -> None:
        """Deletes the iterator's queue, or stops the program's. Does no harm twice."""
        started, self._started = self._started, None
        if started is not None:
            started.deleter  # noqa: B018 (acts when it is read)
            self._source.epoch_ends()
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            iterator._infeed_queue.deleter  # noqa: B018 (acts when it is read)
            self._source.epoch_ends()


def feedable(source: Source) -> Any:
    """The dataset of a source as an infeed can carry it.

    Raises:
        ValueError: The data have a partial batch, or a dimension that is not known.
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
    dataset: Dataset, batch: Any, last: Any = None
) -> tuple[Any, int | None]:
    """A dataset of a generator, whose elements all have the shapes of one batch.

    Args:
        dataset: Its elements have dimensions that are not known.
        batch: The first one, as arrays.
        last: The last one, if it is known without reading all.

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
    if last is not None:
        ends = [np.shape(each) for each in tf.nest.flatten(last) if each is not None]
        if ends != first:
            return dataset, int(first[0][0])

    def fixed(*element: Any) -> Any:
        whole = element if isinstance(spec, tuple) else element[0]
        flat = [
            tf.ensure_shape(each, shape)
            for each, shape in zip(tf.nest.flatten(whole), first, strict=True)
        ]
        return tf.nest.pack_sequence_as(spec, flat)

    return dataset.map(fixed), None


def zeros_of(dataset: Dataset) -> Any:
    """An element of zeros, on the host."""
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        return tf.nest.map_structure(
            lambda spec: tf.zeros(spec.shape, spec.dtype), dataset.element_spec
        )


def narrow(dataset: Dataset) -> Any:
    """The dataset with float64 as float32, and int64 and uint32 as int32.

    A prefetch at its end is put again behind the cast.
    """
    import tensorflow as tf

    narrower = {tf.float64: tf.float32, tf.int64: tf.int32, tf.uint32: tf.int32}
    specs = tf.nest.flatten(dataset.element_spec)
    if not any(getattr(spec, "dtype", None) in narrower for spec in specs):
        return dataset
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return dataset  # the infeed raises for what it cannot carry

    def cast(*element: Any) -> Any:
        whole = element if isinstance(dataset.element_spec, tuple) else element[0]
        return tf.nest.map_structure(
            lambda x: tf.cast(x, narrower.get(x.dtype, x.dtype)), whole
        )

    narrowed = dataset.map(cast, num_parallel_calls=tf.data.AUTOTUNE)
    if type(dataset).__name__ != "_PrefetchDataset":
        return narrowed
    buffered: Any = dataset  # only a prefetch has the size
    return narrowed.prefetch(int(tf.get_static_value(buffered._buffer_size)))


def check_shapes(element_spec: Any) -> None:
    """A program has fixed shapes.

    Raises:
        ValueError: A dimension of an element is not known.
    """
    import tensorflow as tf

    for spec in tf.nest.flatten(element_spec):
        shape = getattr(spec, "shape", None)
        if shape is not None and not shape.is_fully_defined():
            raise ValueError(
                f"The provided set of data contains a shape {shape} which is not fully "
                "defined. Executing on IPU requires all dataset elements to have fully "
                "defined shapes. If using batch() make sure to set `drop_remainder=True`."
            )
