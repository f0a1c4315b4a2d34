"""The fast way of one small result to a thread that sleeps until it comes.

A dequeue is an op, and stacks results that `stream` takes apart again: some 60 us, where
waking the thread takes 10. For a result of few bytes one native call waits and copies it
into a buffer here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.queues.enqueued import Stored, read_stored

# As in cc/feeds/result_store.cc: from here on a copy costs more than keeping the tensor.
MOST_BYTES = 64 << 10


class HandOver:
    """Waits for the results of one outfeed.

    Args:
        reader: An OutfeedReader.

    Threads: one.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._entry = _native.entry()
        self._stored: Stored | None = None
        self._is_stale = True  # what _prepare() has found may not hold any more
        self._structure: Any = None
        self._buffer: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        # A view into the buffer and a dtype's number for each component.
        self._parts: list[tuple[Any, int]] = []
        self._single = False

    def wait(self, seen_ends: int, timeout_ns: int) -> int:
        """Waits, and may take a result; the codes are those of feeds_c_api.cc."""
        number = self._reader.number
        if self._is_stale:
            self._prepare()
        if self._buffer is None or self._stored is None:  # large results, or none yet
            answer = self._entry.ipufeed_outfeed_wait(number, seen_ends, timeout_ns)
        else:
            answer = self._entry.ipufeed_outfeed_next(
                number,
                seen_ends,
                timeout_ns,
                self._stored.identity,
                self._address,
                self._buffer.nbytes,
            )
        self._is_stale = answer == 1  # only a dequeue gives what is there
        return int(answer)

    def result(self) -> Any:
        """What wait() has taken, when it returned 3; in the structure that was enqueued."""
        # Copies: TensorFlow may keep the memory that it is given.
        flat = [
            self._make(view.copy(), self._device, number)
            for view, number in self._parts
        ]
        return flat[0] if self._single else self._pack(self._structure, flat)

    def _prepare(self) -> None:
        stored = read_stored(self._reader.number, self._stored)
        if stored is self._stored:
            return
        self._stored = stored
        self._parts, self._buffer = [], None
        if stored is None:
            return
        self._structure = self._reader.structures.of(stored)
        in_front = (stored.replicas,) if stored.replicas > 1 else ()
        shapes = [(*in_front, *spec.shape) for spec in stored.specs]
        dtypes = [np.dtype(spec.dtype.as_numpy_dtype) for spec in stored.specs]
        sizes = [
            math.prod(shape) * dtype.itemsize
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        if not 0 < sum(sizes) <= MOST_BYTES:
            return
        buffer = np.empty(sum(sizes), np.uint8)
        offset = 0
        for spec, shape, dtype, size in zip(
            stored.specs, shapes, dtypes, sizes, strict=True
        ):
            view: Any = np.ndarray(shape, dtype, buffer, offset)
            self._parts.append((view, spec.dtype.as_datatype_enum))
            offset += size
        self._single = self._structure is stored.specs[0]
        self._make, self._device, self._pack = tensor_makers()
        self._address = buffer.ctypes.data
        self._buffer = buffer


def tensor_makers() -> tuple[Any, str, Any]:
    """What makes a tensor of (array, device, dtype's number); the host's name; nest's pack.

    The first is what tf.constant comes to in the end, seven microseconds earlier.
    """
    import tensorflow as tf

    with tf.device("/device:CPU:0"):
        tensor = tf.constant(0)
    return type(tensor), tensor.device, tf.nest.pack_sequence_as
