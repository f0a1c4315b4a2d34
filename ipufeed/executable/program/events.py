"""How the native core and Python talk of a program (ipufeed/cc/device/program_events.h).

The core calls `on_program` while it compiles and loads, on whatever thread does that.
What is raised here becomes the error of the program that was asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

INTERNAL = 13  # of absl's status codes


class Event(IntEnum):
    """What has happened to a program, or is asked of it."""

    KEY = 0
    SHARED = 1
    FIND = 2
    LOADED = 3
    UNUSABLE = 4
    COMPILED = 5
    FAILED = 6
    ONTO_DEVICE = 7


class RunMode(IntEnum):
    """What becomes of programs that are started."""

    RUN = 0
    ZEROS = 1
    REFUSE = 2


class ProgramCall(ctypes.Structure):
    """ProgramCall of program_events.h."""

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
    """A program that TensorFlow has lowered, and that is to be compiled.

    Attributes:
        id: The same in all events of it.
        ordinal: The IPU that wants it.
        name: What XLA calls it: the function's name, and more.
        function: Its FunctionDef, serialised; empty if it is not known.
        hlo: Its HloModuleProto, serialised.
        arguments: Of each parameter, the number of the function's argument.
        shards: IPUs that one copy of it is spread over; 0 for a part of a program.
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
    """What a phase took.

    Attributes:
        duration_s: Seconds.
        rss_bytes: By how much the process grew meanwhile; may be negative.
    """

    duration_s: float
    rss_bytes: int


def text(pointer: bytes | None) -> str:
    """A C string."""
    return (pointer or b"").decode("utf-8", "replace")


def lowered(call: Any) -> Lowered:
    """A call's fields on a program, copied."""
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


def figures(call: Any) -> Figures:
    """A call's fields on a phase."""
    return Figures(call.duration_ns / 1e9, call.rss_bytes)


def message_of(call: Any) -> str:
    """The message of a call that reports an error."""
    if not call.message_size:
        return ""
    whole: bytes = ctypes.string_at(call.message, call.message_size)
    return whole.decode("utf-8", "replace")


def refuse(call: Any, error: BaseException) -> int:
    """Makes an error the program's; returns its status code."""
    what = str(getattr(error, "message", error)) or type(error).__name__
    data = what.encode()[: call.message_size - 1] + b"\0"
    ctypes.memmove(call.message, data, len(data))
    return int(getattr(error, "error_code", INTERNAL))


def callback(handle: Callable[[Event, Any], None]) -> Any:
    """The function that the core calls, around one that may raise."""

    @ON_PROGRAM  # type: ignore[untyped-decorator]
    def on_program(event: int, pointer: Any) -> int:
        call = pointer.contents
        try:
            handle(Event(event), call)
        except BaseException as error:
            # An event that only reports has no room for a message.
            if event in (Event.KEY, Event.FIND, Event.COMPILED):
                return refuse(call, error)
            raise
        return 0

    return on_program
