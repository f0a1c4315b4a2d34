"""Iterators over an infeed queue, for `next(iterator)` inside a tf.function."""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import composite_tensor, type_spec

from ipufeed.queues.infeed import IPUInfeedQueue, next_tensors
from ipufeed.queues.placement import check_placement
from ipufeed.tf_types import Dataset


class InfeedSpec(type_spec.TypeSpec):  # type: ignore[misc]
    """The type of an initialised infeed queue, and of an iterator over one.

    Two queues of the same structure have the same type: a function that was traced for
    one runs with the other, without another trace. Which queue it is comes in as a tensor.
    """

    __slots__ = ["_latency", "_ordinal", "_prefetch_depth", "_structure"]

    def __init__(
        self,
        structure: Any,
        ordinal: int,
        prefetch_depth: int | None,
        optimise_latency: bool,
    ) -> None:
        self._structure = structure
        self._ordinal = ordinal
        self._prefetch_depth = prefetch_depth
        self._latency = optimise_latency

    @property
    def value_type(self) -> type:
        """The class of the values of this type."""
        return IPUIterator

    @property
    def element_spec(self) -> Any:
        """The structure of an element."""
        return self._structure

    @property
    def _component_specs(self) -> Any:
        import tensorflow as tf

        return tf.TensorSpec([], tf.int64)

    def _serialize(self) -> tuple[Any, ...]:
        return (self._structure, self._ordinal, self._prefetch_depth, self._latency)

    def _to_components(self, value: Any) -> Any:
        return value._feed_tensor()

    def _from_components(self, components: Any) -> Any:
        return IPUIterator(
            infeed_spec=self, element_spec=self._structure, _feed=components
        )


class SpecQueue:
    """An infeed queue inside a function that got it as an argument: it can be dequeued."""

    def __init__(self, spec: InfeedSpec, feed: Any) -> None:
        import tensorflow as tf

        self._spec = spec
        self._feed = feed
        self._structure = spec.element_spec
        self._flat_structure = tf.nest.flatten(spec.element_spec)
        self._device_ordinal = spec._ordinal
        self._dequeued = False

    @property
    def dequeued(self) -> bool:
        """See IPUInfeedQueue."""
        return self._dequeued

    @property
    def number_of_tuple_elements(self) -> int:
        """See IPUInfeedQueue."""
        return len(self._flat_structure)

    @property
    def initializer(self) -> Any:
        """Always raises: the queue that was passed in has been initialised.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "IPUInfeedQueue created from spec cannot be initialized: initialize the queue "
            "that the function was called with."
        )

    @property
    def deleter(self) -> Any:
        """Always raises: delete the queue that was passed in.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "IPUInfeedQueue created from spec cannot be deleted: delete the queue that "
            "the function was called with."
        )

    def _feed_tensor(self) -> Any:
        return self._feed

    def _dequeue(self) -> Any:
        import tensorflow as tf

        check_placement("The infeed queue", self._device_ordinal)
        self._dequeued = True
        flat = next_tensors(self._feed, self._flat_structure)
        return tf.nest.pack_sequence_as(self._structure, flat)


class IPUIterator(composite_tensor.CompositeTensor):  # type: ignore[misc]
    """Iterates over a dataset on the IPU: `next(iterator)` dequeues.

    Args:
        dataset: The dataset; its infeed queue is made and initialised at once.
        infeed_spec: Or the type of one, inside a function.
        element_spec: With it, the structure of an element.
        **kwargs: For the IPUInfeedQueue.

    Raises:
        ValueError: Neither `dataset` nor both of the others are given.
    """

    def __init__(
        self,
        dataset: Dataset | None = None,
        infeed_spec: Any = None,
        element_spec: Any = None,
        **kwargs: Any,
    ) -> None:
        feed = kwargs.pop("_feed", None)
        if dataset is not None:
            if infeed_spec is not None or element_spec is not None:
                raise ValueError(
                    "When `dataset` is provided, `infeed_spec` and `element_spec` must "
                    "not be specified."
                )
            self._queue: Any = IPUInfeedQueue(dataset, **kwargs)
            self._initialize()
        elif infeed_spec is None or element_spec is None:
            raise ValueError(
                "Either `dataset` or both `infeed_spec` and `element_spec` need to be "
                "provided."
            )
        else:
            self._queue = SpecQueue(infeed_spec, feed)
        self._spec = self._queue._type_spec if dataset is not None else infeed_spec

    def _initialize(self) -> None:
        # Reading it acts, in eager mode.
        self._queue.initializer  # noqa: B018

    @property
    def element_spec(self) -> Any:
        """The structure of an element."""
        return self._queue._structure

    @property
    def _infeed_queue(self) -> Any:
        return self._queue

    @property
    def _type_spec(self) -> Any:
        return self._spec

    def _feed_tensor(self) -> Any:
        return self._queue._feed_tensor()

    def __iter__(self) -> IPUIterator:
        import tensorflow as tf

        if not tf.executing_eagerly():
            # Python would trace the body for ever: an iterator has no end here.
            raise NotImplementedError(
                "`for x in iterator` is not supported inside a tf.function: a program "
                "cannot ask whether the dataset has ended. Write `for _ in tf.range(n):` "
                "and `x = next(iterator)`, with a number of steps."
            )
        return self

    def __next__(self) -> Any:
        return self.get_next()

    def get_next(self, name: str | None = None) -> Any:
        """The next element, inside a tf.function.

        Raises:
            RuntimeError: In eager mode: the element is on the device.
        """
        import tensorflow as tf

        del name
        if tf.executing_eagerly():
            raise RuntimeError(
                "Accessing dataset elements can not be accessed in eager mode when inside "
                "'IPUStrategy'. Call `next` inside of a tf.function that the strategy runs."
            )
        return self._queue._dequeue()

    def get_next_as_optional(self) -> Any:
        """Not on an IPU: whether there is a next element is not known to a program.

        Raises:
            NotImplementedError: Always, as in the original.
        """
        raise NotImplementedError(
            "get_next_as_optional is not supported by an IPU iterator: a program cannot "
            "ask whether the dataset has ended. Iterate a known number of steps."
        )

    def _gather_saveables_for_checkpoint(self) -> Any:
        raise NotImplementedError(
            "An IPU iterator cannot be checkpointed: elements may be on their way to the "
            "device. Save the dataset's own position in a variable."
        )


class IPUOwnedIterator(IPUIterator):
    """What `iter(dataset)` gives inside an IPUStrategy's scope."""
