"""Events of programs, from the native core (ipufeed/cc/device/program_events.h).

The core calls `on_program` while it compiles and loads, on the thread that does so. An
exception raised in it becomes the error of the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

INTERNAL = 13  # of absl's status codes


class Event(IntEnum):
    """An event in the life of a program, or a request for one."""

    KEY = 0
    SHARED = 1
    FIND = 2
    LOADED = 3
    UNUSABLE = 4
    COMPILED = 5
    FAILED = 6
    ONTO_DEVICE = 7


class RunMode(IntEnum):
    """How the core executes programs."""

    RUN = 0
    ZEROS = 1
    REFUSE = 2


class ProgramCall(ctypes.Structure):
    """The struct ProgramCall of program_events.h."""

    _fields_ = [
        ("id", ctypes.c_int64),
        ("ordinal", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("function_size", ctypes.c_int64),
        ("hlo", ctypes.c_void_p),
        ("hlo_size", ctypes.c_int64),
        ("arguments", ctypes.POINTER(ctypes.c_int32)),
        ("parameters", ctypes.c_int64),
        ("shards", ctypes.c_int32),
        ("key", ctypes.c_uint64),
        ("previous", ctypes.c_uint64),
        ("executable", ctypes.c_void_p),
        ("executable_size", ctypes.c_int64),
        ("duration_ns", ctypes.c_int64),
        ("rss_bytes", ctypes.c_int64),
        ("message", ctypes.POINTER(ctypes.c_char)),
        ("message_size", ctypes.c_int64),
    ]


ON_PROGRAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ProgramCall))


@dataclass(frozen=True)
class Lowered:
    """A program that TensorFlow has lowered and XLA is to compile.

    Attributes:
        id: Identifies the program in all its events.
        ordinal: The IPU that requests it.
        name: XLA's name, which contains the function's.
        function: The serialised FunctionDef; empty if unknown.
        hlo: The serialised HloModuleProto.
        arguments: For each parameter, the number of the function's argument.
        shards: IPUs of one replica; 0 for a part of another program.
    """

    id: int
    ordinal: int
    name: str
    function: bytes = field(repr=False)
    hlo: bytes = field(repr=False)
    arguments: tuple[int, ...]
    shards: int = 1


@dataclass(frozen=True)
class Figures:
    """Cost of a phase.

    Attributes:
        duration_s: Seconds.
        rss_bytes: Growth of the process's resident memory; may be negative.
    """

    duration_s: float
    rss_bytes: int


def text(pointer: bytes | None) -> str:
    """Returns a C string as text."""
    return (pointer or b"").decode("utf-8", "replace")


def lowered(call: ProgramCall) -> Lowered:
    """Copies the fields that describe a program."""
    return Lowered(
        id=call.id,
        ordinal=call.ordinal,
        name=text(call.name),
        function=ctypes.string_at(call.function or 0, call.function_size)
        if call.function_size
        else b"",
        hlo=ctypes.string_at(call.hlo, call.hlo_size),
        arguments=tuple(call.arguments[: call.parameters]),
        shards=call.shards,
    )


def figures(call: ProgramCall) -> Figures:
    """Copies the fields that describe a phase."""
    return Figures(call.duration_ns / 1e9, call.rss_bytes)


def message_of(call: ProgramCall) -> str:
    """Returns the message of a call that reports an error."""
    if not call.message_size:
        return ""
    whole: bytes = ctypes.string_at(call.message, call.message_size)
    return whole.decode("utf-8", "replace")


def _refuse(call: ProgramCall, error: BaseException) -> int:
    """Writes an error into the call; returns its status code."""
    what = str(getattr(error, "message", error)) or type(error).__name__
    data = what.encode()[: call.message_size - 1] + b"\0"
    ctypes.memmove(call.message, data, len(data))
    return int(getattr(error, "error_code", INTERNAL))


def callback(handle: Callable[[Event, ProgramCall], None]) -> object:
    """Wraps a handler that may raise as the function that the core calls."""

    @ON_PROGRAM  # type: ignore[untyped-decorator]
    def on_program(event: int, pointer: Any) -> int:
        call = pointer.contents
        try:
            handle(Event(event), call)
        except BaseException as error:
            # The other events only report, and have no buffer for a message.
            if event in (Event.KEY, Event.FIND, Event.COMPILED):
                return _refuse(call, error)
            raise
        return 0

    return on_program
