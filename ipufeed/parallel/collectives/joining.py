"""Runs the collectives between processes that the core requests, from join() on.

core's thread (cc/replicas/collective_thread.h) --> on_collective() --> Group
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from ipufeed import _native
from ipufeed.device.log import LOGGER
from ipufeed.once import once
from ipufeed.parallel.collectives.peers import Request
from ipufeed.parallel.collectives.processes import TAG_COUNT, Group

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

INTERNAL = 13  # of absl's status codes

# OnCollective of cc/replicas/collective_thread.h.
ON_COLLECTIVE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_int),
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_int64,
)


@once
def group(count: int, index: int) -> Group:
    """Returns the group. A second one could not listen at the address of the first."""
    return Group(count, index)


def join(count: int, index: int) -> None:
    """Makes this process number `index` of `count`, in the core.

    It listens from now on at its address of TF_CONFIG. If it cannot, the reason is logged,
    and the first collective fails with it.

    Security: the server that listens has no authentication; see addresses.py.

    Threads: any, between programs.
    """
    try:
        group(count, index)
    except tf.errors.FailedPreconditionError as error:
        LOGGER.warning("%s", error.message)
    address = ctypes.cast(callback_of(count, index), ctypes.c_void_p)
    _native.entry().ipufeed_set_processes(count, index, address)


@once
def callback_of(count: int, index: int) -> CFuncPtr:
    """Makes the core's callback. It stays: the core has its address."""

    def on_collective(
        stream: int,
        checks: int,
        reduction: int,
        mean: int,
        dtype: int,
        address: int | None,  # None for a check: no elements
        reduced: ctypes._Pointer[ctypes.c_void_p],
        elements: int,
        wanted: ctypes._Pointer[ctypes.c_int],
        run: int,
        number: int,
        what: bytes,
        message: int,
        message_size: int,
    ) -> int:
        request = Request(
            stream, reduction, bool(mean), dtype, run, number, what.decode()
        )
        try:
            if checks:
                group(count, index).check(request)
                return 0
            kind = np.dtype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)
            size = (elements + TAG_COUNT) * kind.itemsize
            memory = (ctypes.c_char * size).from_address(address or 0)
            data = np.frombuffer(memory, kind)
            found = group(count, index).reduce(data, request, wanted)
            reduced[0] = found.ctypes.data
        except Exception as error:
            text = str(getattr(error, "message", error)).encode()
            text = text[: message_size - 1] + b"\0"
            ctypes.memmove(message, text, len(text))
            return int(getattr(error, "error_code", INTERNAL))
        return 0

    return ON_COLLECTIVE(on_collective)
