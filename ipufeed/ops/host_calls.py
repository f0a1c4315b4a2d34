"""Calls of the host from programs: the functions, by the kind of the call.

    program's thread --> ipufeed_host_call (native) --> answer() --> HANDLERS[kind](call)

A call has tensors in memory that belongs to the program: inputs to read, and outputs to
fill, both valid until the function returns. Calls of a program come in its order; those of
replicas, and of the stages of a pipeline, may come at the same time, on their threads.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.device.random import ops as random_ops
from ipufeed.queues import interrupt
from ipufeed.queues.chain import put_token, take_token

_INTERNAL = 13  # a status code of absl
_KEPT_RUNS = 8


class _HostTensor(ctypes.Structure):
    """As HostTensor in ipufeed/cc/host/host_call.h."""

    _fields_ = (
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("elements", ctypes.c_int64),
    )


class _HostCall(ctypes.Structure):
    """As HostCall in ipufeed/cc/host/host_call.h."""

    _fields_ = (
        ("kind", ctypes.c_char_p),
        ("text", ctypes.c_void_p),
        ("text_size", ctypes.c_int64),
        ("op", ctypes.c_int64),
        ("run", ctypes.c_int64),
        ("mini_batch", ctypes.c_int64),
        ("ordinal", ctypes.c_int32),
        ("replica", ctypes.c_int32),
        ("replicas", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
        ("input", ctypes.POINTER(_HostTensor)),
        ("output", ctypes.POINTER(_HostTensor)),
        ("message", ctypes.POINTER(ctypes.c_char)),
        ("message_size", ctypes.c_int32),
    )


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_HostCall))


@dataclass
class Call:
    """A call of the host.

    Attributes:
        text: The op's attribute, from when it was built.
        op: The op's number in its program.
        run: The number of the program's run in this process.
        mini_batch: That of a pipeline's run, from 0; -1 outside of a pipeline.
        ordinal: Of the device.
        replica: Among those of all processes.
        replicas: How many the program has in this process.
        inputs: Read-only arrays in the program's memory.
        outputs: Arrays in the program's memory, to be filled.
    """

    text: str
    op: int
    run: int
    mini_batch: int
    ordinal: int
    replica: int
    replicas: int
    inputs: list[np.ndarray[Any, Any]]
    outputs: list[np.ndarray[Any, Any]]


HANDLERS: dict[str, Callable[[Call], None]] = {}

_lock = threading.Lock()
# Run -> ((kind, op, replica) -> what a function keeps between its calls).
_states: dict[int, dict[tuple[str, int, int], Any]] = {}
_last = threading.local()


def handler(kind: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    """Makes a function answer the calls of a kind."""

    def put(function: Callable[[Call], None]) -> Callable[[Call], None]:
        HANDLERS[kind] = function
        return function

    return put


def call(
    kind: str,
    text: str,
    inputs: list[Any],
    gives: list[tuple[Any, Any]],
    *,
    has_state: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Builds a call, in order with the queues' operations of the program.

    Args:
        kind: One of HANDLERS, or "library".
        text: For the function.
        inputs: Tensors of numbers or bools.
        gives: The dtypes and the defined shapes of the outputs.
        has_state: The op has a number of its own in its program.
        name: Of the operation.

    Returns:
        The outputs.
    """
    import tensorflow as tf

    connect()
    number = 0
    if not tf.executing_eagerly():
        interrupt.watch()  # reports the end of functions to the native core
        number = random_ops.next_number("host_calls") if has_state else 0
    for dtype, shape in gives:
        if not tf.TensorShape(shape).is_fully_defined():
            raise ValueError(
                "What the host gives must have a fully defined shape, got "
                f"{tf.as_dtype(dtype).name} {shape}."
            )
    outputs, token = _native.load().ipufeed_host_call(
        inputs,
        take_token(),
        dtypes=[dtype for dtype, _ in gives],
        shapes=[shape for _, shape in gives],
        kind=kind,
        text=text,
        o=number,
        name=name,
    )
    put_token(token)
    _last.operation = None if tf.executing_eagerly() else token.op
    return list(outputs)


def last_operation() -> Any:
    """Returns the operation that this thread has built last; None if it ran eagerly."""
    return _last.operation


def state(call: Call, kind: str, make: Callable[[], Any]) -> Any:
    """Returns what a run of a program keeps for an op of a replica; new in each run."""
    with _lock:
        if call.run not in _states:
            for old in sorted(_states)[: 1 - _KEPT_RUNS]:
                del _states[old]
            _states[call.run] = {}
        return _states[call.run].setdefault((kind, call.op, call.replica), make())


@functools.lru_cache(64)
def _hash_of(path: str, size: int, changed_ns: int) -> str:
    del size, changed_ns
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def file_hash(path: str) -> str:
    """Returns the SHA-256 of a file, which is then a part of a program's key.

    Raises:
        tf.errors.NotFoundError: It cannot be read.
    """
    from tensorflow.python.framework import errors

    try:
        found = os.stat(path)
        return _hash_of(path, found.st_size, found.st_mtime_ns)
    except OSError as error:
        raise errors.NotFoundError(
            None, None, f"{path}: {error.strerror or error}: give a shared library."
        ) from error


@functools.cache
def connect() -> None:
    """Makes this module's functions answer, once."""
    from tensorflow.python.framework import ops

    _native.load()
    _native.entry().ipufeed_set_on_host_call(_callback)
    ops.NotDifferentiable("IpufeedHostCall")


def _array(tensor: _HostTensor, is_input: bool) -> np.ndarray[Any, Any]:
    dtype = np.dtype(_numpy_dtype(tensor.dtype))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
    if not tensor.elements:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (tensor.elements * dtype.itemsize)).from_address(
        tensor.data
    )
    array = np.frombuffer(memory, dtype).reshape(shape)
    array.flags.writeable = not is_input
    return array


@functools.cache
def _numpy_dtype(number: int) -> Any:
    import tensorflow as tf

    return tf.dtypes.as_dtype(number).as_numpy_dtype


def _answer(pointer: Any) -> int:
    """Calls the function of a kind; 0, or a status code with its message."""
    given = pointer.contents
    try:
        kind = given.kind.decode()
        HANDLERS[kind](
            Call(
                ctypes.string_at(given.text, given.text_size).decode(),
                given.op,
                given.run,
                given.mini_batch,
                given.ordinal,
                given.replica,
                given.replicas,
                [_array(given.input[each], True) for each in range(given.inputs)],
                [_array(given.output[each], False) for each in range(given.outputs)],
            )
        )
        return 0
    except BaseException as error:  # nothing passes through native frames
        text = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        message = str(text).encode(errors="replace")[: given.message_size - 1]
        ctypes.memmove(given.message, message + b"\0", len(message) + 1)
        code = getattr(error, "error_code", None)
        return int(code) if code else _INTERNAL


_callback = _FUNCTION(_answer)
