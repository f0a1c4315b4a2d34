"""The fast way of one small result to a thread that sleeps until it comes.

A dequeue is an op, and stacks results that `stream` takes apart again: some 60 us, where
waking the thread takes 10. For a result of few bytes one native call waits and copies it
into a buffer here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipufeed import _native

# As in ipufeed/cc/result_store.cc: from here on a copy costs more than keeping the tensor.
MOST_BYTES = 64 << 10


class HandOver:
    """Waits for the results of one outfeed.

    Args:
        queue: An IPUOutfeedQueue.

    Threads: one.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._entry = _native.entry()
        self._specs: list[Any] | None = None
        self._buffer: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        self._parts: list[tuple[Any, Any, int]] = []

    def wait(self, seen_runs: int, timeout_ns: int) -> int:
        """Waits, and may take a result; the codes are those of feeds_c_api.cc.

        Raises:
            tf.errors.InternalError: A program enqueued another structure than the queue
                was last given.
        """
        number = self._queue._number
        if self._queue._flat_structure is not self._specs:
            self._prepare()
        if self._buffer is None:  # large results, or none is known yet
            return int(self._entry.ipufeed_outfeed_wait(number, seen_runs, timeout_ns))
        answer = int(
            self._entry.ipufeed_outfeed_next(
                number, seen_runs, timeout_ns, self._address, self._buffer.nbytes
            )
        )
        if answer < 0:
            import tensorflow as tf

            raise tf.errors.InternalError(
                None,
                None,
                f"outfeed queue '{self._queue._id}' got a result of another size than its "
                "last enqueue says.",
            )
        return answer

    def result(self) -> Any:
        """What wait() has taken, when it said 3; in the structure that was enqueued."""
        import tensorflow as tf

        # Copies: TensorFlow may keep the memory that it is given.
        with tf.device("/device:CPU:0"):
            flat = [
                tf.constant(np.ndarray(shape, dtype, self._buffer, offset).copy())
                for dtype, shape, offset in self._parts
            ]
        return tf.nest.pack_sequence_as(self._queue._structure, flat)

    def _prepare(self) -> None:
        self._specs = self._queue._flat_structure
        self._parts, self._buffer, offset = [], None, 0
        for spec in self._specs or []:
            if not spec.shape.is_fully_defined():
                return
            dtype = np.dtype(spec.dtype.as_numpy_dtype)
            self._parts.append((dtype, tuple(spec.shape), offset))
            offset += spec.shape.num_elements() * dtype.itemsize
        if 0 < offset <= MOST_BYTES:
            self._buffer = np.empty(offset, np.uint8)
            self._address = self._buffer.ctypes.data
