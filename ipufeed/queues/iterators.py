"""Iterators over an infeed queue, for `next(iterator)` inside a tf.function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import tensorflow as tf
from tensorflow.python.framework import composite_tensor, type_spec

from ipufeed.queues.infeed import IPUInfeedQueue, next_tensors
from ipufeed.queues.placement import check_placement
from ipufeed.queues.structure import flat_structure
from ipufeed.tf_types import Dataset, DType, Nest, Shape, Spec, Tensor, TensorSpec


class InfeedSpec(type_spec.TypeSpec):  # type: ignore[misc]
    """The type spec of an initialised infeed queue, and of an iterator over one.

    Queues of the same structure have equal specs: a function that was traced for one runs
    with another one without a new trace. The queue's number is the component tensor.
    """

    __slots__ = ["_id", "_latency", "_ordinal", "_prefetch_depth", "_structure"]

    def __init__(
        self,
        structure: Spec,
        ordinal: int,
        prefetch_depth: int | None,
        optimise_latency: bool,
        queue_id: str | None = None,
    ) -> None:
        self._structure = structure
        # Not part of the type: one trace serves all queues of a structure.
        self._id = queue_id
        self._ordinal = ordinal
        self._prefetch_depth = prefetch_depth
        self._latency = optimise_latency

    @property
    def value_type(self) -> type:
        """The class of the values of this type."""
        return IPUIterator

    @property
    def element_spec(self) -> Spec:
        """The structure of an element."""
        return self._structure

    @property
    def _flat_structure(self) -> dict[str, list[DType | Shape]]:
        return flat_structure(self._structure)

    @property
    def _device_ordinal(self) -> int:
        return self._ordinal

    @property
    def _component_specs(self) -> TensorSpec:
        return tf.TensorSpec([], tf.int64)

    def _serialize(self) -> tuple[Any, ...]:
        return (self._structure, self._ordinal, self._prefetch_depth, self._latency)

    def most_specific_common_supertype(self, others: Sequence[Spec]) -> Spec | None:
        """Returns this spec if the others are equal: an infeed's shapes are all known.

        A function with reduce_retracing=True would replace sizes that differ with None.
        """
        return self if all(self == each for each in others) else None

    def _to_components(self, value: IPUInfeedQueue | IPUIterator) -> Tensor:
        return value._feed_tensor()

    def _from_components(self, components: Tensor) -> IPUIterator:
        return IPUIterator(
            infeed_spec=self, element_spec=self._structure, _feed=components
        )


class _SpecQueue:
    """An infeed queue that is an argument of a traced function; it can only dequeue."""

    def __init__(self, spec: InfeedSpec, feed: Tensor) -> None:
        self._type_spec = spec
        self._feed = feed
        self._structure = spec.element_spec
        self._specs = tf.nest.flatten(spec.element_spec)
        self._flat_structure = spec._flat_structure
        self._device_ordinal = spec._ordinal
        self._dequeued = False

    @property
    def dequeued(self) -> bool:
        """See IPUInfeedQueue."""
        return self._dequeued

    @property
    def number_of_tuple_elements(self) -> int:
        """See IPUInfeedQueue."""
        return len(self._specs)

    @property
    def initializer(self) -> NoReturn:
        """Always raises: the function's argument was initialised before the call.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "IPUInfeedQueue created from spec cannot be initialized: initialize the queue "
            "that the function was called with."
        )

    @property
    def deleter(self) -> NoReturn:
        """Always raises: delete the queue that was passed to the function.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "IPUInfeedQueue created from spec cannot be deleted: delete the queue that "
            "the function was called with."
        )

    def _feed_tensor(self) -> Tensor:
        return self._feed

    def _dequeue(self) -> Nest:
        check_placement("The infeed queue", self._device_ordinal)
        self._dequeued = True
        flat = next_tensors(self._feed, self._specs)
        return tf.nest.pack_sequence_as(self._structure, flat)


class IPUIterator(composite_tensor.CompositeTensor):  # type: ignore[misc]
    """Iterates over a dataset on the IPU: `next(iterator)` dequeues.

    Args:
        dataset: The dataset; the constructor creates and initialises its infeed queue.
        infeed_spec: Instead of it, the type spec of a queue, inside a function.
        element_spec: With `infeed_spec`, the structure of an element.
        **kwargs: Arguments of the IPUInfeedQueue.

    Raises:
        ValueError: Neither `dataset` nor both of the others are given.
    """

    def __init__(
        self,
        dataset: Dataset | None = None,
        infeed_spec: InfeedSpec | None = None,
        element_spec: Spec | None = None,
        **kwargs: Any,
    ) -> None:
        feed = kwargs.pop("_feed", None)
        if dataset is not None:
            if infeed_spec is not None or element_spec is not None:
                raise ValueError(
                    "When `dataset` is provided, `infeed_spec` and `element_spec` must "
                    "not be specified."
                )
            self._queue: IPUInfeedQueue | _SpecQueue = IPUInfeedQueue(dataset, **kwargs)
            self._initialize()
        elif infeed_spec is None or element_spec is None:
            raise ValueError(
                "Either `dataset` or both `infeed_spec` and `element_spec` need to be "
                "provided."
            )
        else:
            self._queue = _SpecQueue(infeed_spec, feed)

    def _initialize(self) -> None:
        self._queue.initializer  # noqa: B018 (in eager mode the access runs it)

    @property
    def element_spec(self) -> Spec:
        """The structure of an element."""
        return self._queue._structure

    @property
    def _infeed_queue(self) -> Any:  # of an iterator of a dataset an IPUInfeedQueue
        return self._queue

    @property
    def _type_spec(self) -> InfeedSpec:
        return self._queue._type_spec

    def _feed_tensor(self) -> Tensor:
        return self._queue._feed_tensor()

    def __iter__(self) -> IPUIterator:
        if not tf.executing_eagerly():
            # Python would trace the body without an end: the iterator is infinite here.
            raise NotImplementedError(
                "`for x in iterator` is not supported inside a tf.function: a program "
                "cannot ask whether the dataset has ended. Write `for _ in tf.range(n):` "
                "and `x = next(iterator)`, with a number of steps."
            )
        return self

    def __next__(self) -> Nest:
        return self.get_next()

    def get_next(self, name: str | None = None) -> Nest:
        """Builds the dequeue of the next element, inside a tf.function.

        Raises:
            RuntimeError: In eager mode: the element is on the device.
        """
        del name
        if tf.executing_eagerly():
            raise RuntimeError(
                "Accessing dataset elements can not be accessed in eager mode when inside "
                "'IPUStrategy'. Call `next` inside of a tf.function that the strategy runs."
            )
        return self._queue._dequeue()

    def get_next_as_optional(self) -> NoReturn:
        """Always raises: a program cannot check whether there is a next element.

        Raises:
            NotImplementedError: Always, as in Graphcore's.
        """
        raise NotImplementedError(
            "get_next_as_optional is not supported by an IPU iterator: a program cannot "
            "ask whether the dataset has ended. Iterate a known number of steps."
        )

    def _gather_saveables_for_checkpoint(self) -> NoReturn:
        raise NotImplementedError(
            "An IPU iterator cannot be checkpointed: elements may be on their way to the "
            "device. Save the dataset's own position in a variable."
        )


class IPUOwnedIterator(IPUIterator):
    """The result of `iter(dataset)` in an IPUStrategy's scope."""
