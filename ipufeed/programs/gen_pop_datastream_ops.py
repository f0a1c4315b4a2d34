"""gen_pop_datastream_ops: the queues' raw operations, which identify a queue by an id.

    outfeed_enqueue(..., "x")  --> IPUOutfeedQueue --> outfeed_dequeue(..., "x")
    ipu_create_dataset_iterator(..., "y") --> IPUInfeedQueue --> infeed_dequeue("y")

A queue exists from its first operation to the one that deletes it.

Source: names and arguments are those of Graphcore's module
tensorflow.compiler.plugin.poplar.ops.gen_pop_datastream_ops.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ipufeed.no_effect import no_effect
from ipufeed.process_state import STATE
from ipufeed.queues.infeed import IPUInfeedQueue, warn_of_latency
from ipufeed.queues.outfeed import IPUOutfeedMode, IPUOutfeedQueue
from ipufeed.queues.placement import current_ordinal
from ipufeed.tf_types import Dataset, DType, Operation, Shape, Tensor

_lock = threading.Lock()
_outfeeds: dict[str, IPUOutfeedQueue] = {}
_infeeds: dict[str, IPUInfeedQueue] = {}
_MODES = {"all": IPUOutfeedMode.ALL, "get_last": IPUOutfeedMode.LAST}


@STATE.part("queues by id")
def _forget() -> None:
    with _lock:
        _outfeeds.clear()
        _infeeds.clear()


def _outfeed(feed_id: str, mode: str, depth: int) -> IPUOutfeedQueue:
    """Returns the outfeed of an id; the first call creates it.

    Raises:
        TypeError: The id is not a str.
        ValueError: The mode is not defined.
    """
    _check_id(feed_id)
    if mode not in _MODES:
        raise ValueError(
            f"`outfeed_mode` must be one of {', '.join(map(repr, _MODES))}, got {mode!r}."
        )
    with _lock:
        if feed_id not in _outfeeds:
            _outfeeds[feed_id] = IPUOutfeedQueue(
                _MODES[mode],
                device_ordinal=current_ordinal(),  # of the program that is built
                buffer_depth=depth,
                _internal_id=feed_id,
            )
        return _outfeeds[feed_id]


def _check_id(feed_id: object) -> None:
    if not isinstance(feed_id, str):
        raise TypeError(
            f"`feed_id` must be a str, got {type(feed_id).__name__} {feed_id!r}."
        )


def _check_components(dataset: Dataset, types: object, shapes: object) -> None:
    """Raises an error unless dtypes and shapes are those of a dataset's components."""
    specs = tf.nest.flatten(dataset.element_spec)
    for name, given, found, convert in (
        ("output_types", types, [spec.dtype for spec in specs], tf.as_dtype),
        ("output_shapes", shapes, [spec.shape for spec in specs], tf.TensorShape),
    ):
        if not isinstance(given, (list, tuple)):
            raise TypeError(
                f"`{name}` must be a list, with one for each component of the dataset, "
                f"got {type(given).__name__} {given!r}."
            )
        wanted = [convert(each) for each in given]
        if len(wanted) != len(found) or not all(
            one.is_compatible_with(other)
            for one, other in zip(wanted, found, strict=True)
        ):
            raise ValueError(
                f"`{name}` must be those of the dataset's components, "
                f"[{', '.join(map(_short, found))}], got "
                f"[{', '.join(map(_short, wanted))}]."
            )


def _short(value: Any) -> str:
    return value.name if isinstance(value, tf.DType) else str(value)


def _infeed(feed_id: str) -> IPUInfeedQueue:
    """Returns the infeed of an id.

    Raises:
        TypeError: The id is not a str.
        ValueError: There is none.
    """
    _check_id(feed_id)
    with _lock:
        queue = _infeeds.get(feed_id)
    if queue is None:
        raise ValueError(
            f"There is no infeed {feed_id!r}: build ipu_create_dataset_iterator first."
        )
    return queue


def pop_datastream_outfeed_enqueue(
    inputs: Iterable[Tensor],
    output_shapes: object,
    feed_id: str,
    outfeed_mode: str = "all",
    prefetch_depth: int = 1,
    optimise_latency: bool = False,
    name: str | None = None,
) -> Operation | None:
    """Builds the operation that enqueues a list of tensors under an id.

    Args:
        inputs: The tensors.
        output_shapes: Not used: the tensors have their shapes.
        feed_id: The queue's id.
        outfeed_mode: "all" or "get_last".
        prefetch_depth: The ring's capacity in elements.
        optimise_latency: No effect, with a warning: the ring has no batching to turn off.
        name: Not used.
    """
    del output_shapes, name
    warn_of_latency("pop_datastream_outfeed_enqueue", optimise_latency)
    return _outfeed(feed_id, outfeed_mode, prefetch_depth).enqueue(list(inputs))


def pop_datastream_outfeed_dequeue(
    output_types: object,
    output_shapes: object,
    feed_id: str,
    device_ordinal: int = 0,
    outfeed_mode: str = "all",
    prefetch_depth: int = 1,
    warn_when_unconnected: bool = True,
    optimise_latency: bool = False,
    name: str | None = None,
) -> list[Tensor]:
    """Dequeues the results that were enqueued under an id: a list of tensors.

    Args:
        output_types: Not used: the enqueued tensors have their dtypes.
        output_shapes: Not used. "all" returns [n, *shape], "get_last" shape.
        feed_id: The queue's id.
        device_ordinal: Not used: the enqueuing program's IPU has the queue.
        outfeed_mode: "all" or "get_last".
        prefetch_depth: The ring's capacity in elements.
        warn_when_unconnected: Not used: a queue cannot be unconnected.
        optimise_latency: No effect, with a warning: the ring has no batching to turn off.
        name: Not used.

    Raises:
        ValueError: In a graph: nothing is enqueued under the id.
    """
    del output_types, output_shapes, device_ordinal, warn_when_unconnected, name
    warn_of_latency("pop_datastream_outfeed_dequeue", optimise_latency)
    found: list[Tensor] = _outfeed(feed_id, outfeed_mode, prefetch_depth).dequeue()
    return found


def ipu_delete_outfeed(
    feed_id: str,
    device_ordinal: int = 0,
    asynchronous: bool = False,
    name: str | None = None,
) -> Operation | None:
    """Drops an outfeed's results; in a graph returns the operation."""
    del device_ordinal, asynchronous, name
    with _lock:
        queue = _outfeeds.get(feed_id)
    if queue is None:
        return None if tf.executing_eagerly() else tf.no_op()
    return queue.deleter


def ipu_create_dataset_iterator(
    input_dataset: Dataset | Tensor,
    feed_id: str,
    output_types: Iterable[DType],
    output_shapes: Iterable[Shape],
    device_ordinal: int = 0,
    prefetch_depth: int = 1,
    optimise_latency: bool = False,
    name: str | None = None,
) -> Operation | None:
    """Initialises an infeed of a dataset under an id; in a graph returns the operation.

    Args:
        input_dataset: A dataset, or its variant tensor.
        feed_id: The queue's id.
        output_types: The components' dtypes, flat.
        output_shapes: Their shapes.
        device_ordinal: Not used: the dequeuing program's IPU has the queue.
        prefetch_depth: The ring's capacity in elements.
        optimise_latency: No effect, with a warning: the ring has no batching to turn off.
        name: Not used.

    Raises:
        TypeError: `feed_id` is not a str, or dtypes or shapes are not a list.
        ValueError: They are not those of the dataset.
    """
    del device_ordinal, name
    _check_id(feed_id)
    warn_of_latency("ipu_create_dataset_iterator", optimise_latency)
    dataset = input_dataset
    if not isinstance(dataset, tf.data.Dataset):
        spec = tuple(
            tf.TensorSpec(shape, dtype)
            for shape, dtype in zip(output_shapes, output_types, strict=True)
        )
        dataset = tf.data.experimental.from_variant(input_dataset, spec)
    queue = IPUInfeedQueue(dataset, prefetch_depth=prefetch_depth, _internal_id=feed_id)
    _check_components(dataset, output_types, output_shapes)
    with _lock:
        _infeeds[feed_id] = queue
    return queue.initializer


def pop_datastream_infeed_dequeue(
    feed_id: str,
    output_types: Iterable[DType],
    output_shapes: Iterable[Shape],
    prefetch_depth: int = 1,
    optimise_latency: bool = False,
    name: str | None = None,
) -> list[Tensor]:
    """Builds the dequeue of the next element of an id's dataset: a list of tensors.

    Args:
        feed_id: The queue's id.
        output_types: The dtypes of the dataset's components, flat.
        output_shapes: Their shapes.
        prefetch_depth: No effect: ipu_create_dataset_iterator sets it. Another depth than
            there is warned of.
        optimise_latency: No effect, with a warning: the ring has no batching to turn off.
        name: Not used.

    Raises:
        TypeError: The id is not a str, or dtypes or shapes are not a list.
        ValueError: No dataset feeds the id, or it has other dtypes or shapes.
    """
    del name
    warn_of_latency("pop_datastream_infeed_dequeue", optimise_latency)
    queue = _infeed(feed_id)
    _check_components(queue._dataset, output_types, output_shapes)
    if prefetch_depth not in (1, queue._prefetch_depth):
        no_effect(
            "pop_datastream_infeed_dequeue(prefetch_depth=)",
            "ipu_create_dataset_iterator sets the depth",
        )
    flat: list[Tensor] = tf.nest.flatten(queue._dequeue())
    return flat


def ipu_delete_dataset_iterator(
    feed_id: str,
    device_ordinal: int = 0,
    asynchronous: bool = False,
    name: str | None = None,
) -> Operation | None:
    """Deletes an infeed; in a graph returns the operation.

    Raises:
        ValueError: No dataset feeds the id.
    """
    del device_ordinal, asynchronous, name
    return _infeed(feed_id).deleter
