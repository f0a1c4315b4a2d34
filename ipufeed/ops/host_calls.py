"""Calls of host functions from programs, by the kind of the call.

    program's thread --> ipufeed_host_call (native) --> _run_call --> _HANDLERS[kind](call)

A call has tensors in the program's memory: inputs to read, and outputs to fill, both valid
until the function returns. The calls of a program are in program order; those of replicas,
and of the stages of a pipeline, may be concurrent, on their threads.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from ipufeed import _native
from ipufeed.device.random import ops as random_ops
from ipufeed.once import once
from ipufeed.process_state import STATE
from ipufeed.queues import interrupt
from ipufeed.queues.chain import put_token, take_token
from ipufeed.tf_types import DType, Operation, Shape, Tensor

# absl's status codes.
_CANCELLED = 1
_INTERNAL = 13


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
        text: The op's attribute `text`.
        op: The op's number in its program.
        run: The number of the program's run in this process.
        mini_batch: The number of a pipeline's mini-batch, from 0; else -1.
        ordinal: The device's ordinal.
        replica: The replica's index among those of all processes.
        replicas: The number of the program's replicas in this process.
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


_HANDLERS: dict[str, Callable[[Call], None]] = {}

_load: Callable[[], None] | None = None
_lock = threading.Lock()
# Run -> ((kind, op, replica) -> the state of a function between its calls). The states of
# runs that have ended are removed when another run gets its first.
_states: dict[int, dict[tuple[str, int, int], Any]] = {}
_last = threading.local()


@STATE.part("host calls")
def _forget() -> None:
    with _lock:
        _states.clear()


def handler(kind: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    """Decorates the function that handles the calls of a kind."""

    def register(function: Callable[[Call], None]) -> Callable[[Call], None]:
        _HANDLERS[kind] = function
        return function

    return register


def set_loader(load: Callable[[], None]) -> None:
    """Sets the function that imports the modules with handlers.

    A program from a file can run in a process that has not imported them.
    """
    global _load
    _load = load


def _handler_of(kind: str) -> Callable[[Call], None]:
    if kind not in _HANDLERS and _load is not None:
        _load()
    if kind not in _HANDLERS:
        raise RuntimeError(
            f"The program calls a function of the host of the kind {kind!r}, which this "
            "version of ipufeed does not have: compile the program again."
        )
    return _HANDLERS[kind]


def call(
    kind: str,
    text: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[tuple[DType, Shape]],
    *,
    has_state: bool = False,
    name: str | None = None,
) -> list[Tensor]:
    """Builds a call, in program order with the queues' operations.

    Args:
        kind: A kind with a handler, or "library".
        text: An argument of the function.
        inputs: Tensors of numbers or bools.
        outputs: The dtypes and the defined shapes of the outputs.
        has_state: Whether the op gets a unique number in its program, for `state`.
        name: The operation's name.

    Returns:
        The outputs.
    """
    connect()
    number = 0
    if not tf.executing_eagerly():
        interrupt.watch()  # it notifies the native core of the end of functions
        number = random_ops.next_number("host_calls") if has_state else 0
    for dtype, shape in outputs:
        if not tf.TensorShape(shape).is_fully_defined():
            raise ValueError(
                "The outputs of a host call must have fully defined shapes, got "
                f"{tf.as_dtype(dtype).name} {shape}."
            )
    results, token = _native.load().ipufeed_host_call(
        inputs,
        take_token(),
        dtypes=[dtype for dtype, _ in outputs],
        shapes=[shape for _, shape in outputs],
        kind=kind,
        text=text,
        o=number,
        name=name,
    )
    put_token(token)
    _last.operation = None if tf.executing_eagerly() else token.op
    return list(results)


def last_operation() -> Operation | None:
    """Returns the last call that this thread has built; None if it ran eagerly."""
    operation: Operation | None = _last.operation
    return operation


def state(call: Call, kind: str, make: Callable[[], Any]) -> Any:
    """Returns the state of an op of a replica, which `make` creates in each run."""
    with _lock:
        if call.run not in _states:
            runs = _native.entry().ipufeed_program_runs
            for old in [each for each in _states if not runs(each)]:
                del _states[old]
            _states[call.run] = {}
        return _states[call.run].setdefault((kind, call.op, call.replica), make())


@once
def connect() -> None:
    """Registers this module's callback in the native core, once."""
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
    return tf.dtypes.as_dtype(number).as_numpy_dtype


def _run_call(pointer: Any) -> int:
    """Calls the handler of a kind; returns 0, or a status code with its message."""
    given = pointer.contents
    try:
        kind = given.kind.decode()
        _handler_of(kind)(
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
    except BaseException as error:  # exceptions cannot pass through native frames
        text = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        message = str(text).encode(errors="replace")[: given.message_size - 1]
        ctypes.memmove(given.message, message + b"\0", len(message) + 1)
        if interrupt.keep_of_signal(error):
            return _CANCELLED
        code = getattr(error, "error_code", None)
        return int(code) if code else _INTERNAL


_callback = _FUNCTION(_run_call)
