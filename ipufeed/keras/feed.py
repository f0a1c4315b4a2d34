"""The data of one call: a dataset for an infeed, and its iterators."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.device.log import LOGGER
from ipufeed.keras.data.dtypes import narrow
from ipufeed.keras.data.shapes import check_shapes
from ipufeed.keras.data.steps import Steps, count_steps
from ipufeed.keras.kit import Source
from ipufeed.keras.state import ModelState
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.iterators import IPUIterator
from ipufeed.tf_types import Dataset


class Feed:
    """A dataset for an infeed, its steps, and its successive iterators.

    Args:
        state: The state of the model.
        source: The data.
        dataset: The result of `feedable`.
        steps: The steps of an epoch, per replica, from the caller; None: all data.
        steps_per_execution: The argument of `compile`.
        epochs: The epochs of the call.
        argument: The name of the caller's argument for the steps.

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
        argument: str = "steps",
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
            argument,
        )
        if source.size is None and not source.endless:
            LOGGER.info(
                "The size of the dataset is unknown. It must give %d batches in an epoch.",
                self.steps.epoch * replicas,
            )
        if source.check is not None and not source.renewed:
            source.check.most = self.steps.epoch * replicas * epochs
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
        """Returns the error of the data that caused an error of a program, or the latter.

        Such as a generator's batch that differs from the first one, or too few batches.
        """
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
        source.partial_batch.refuse(source.size or 1)
    dataset = narrow(source.dataset)
    check_shapes(dataset.element_spec)
    return dataset
