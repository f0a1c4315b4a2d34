"""Compiled programs read from application files, and those compiled for one.

    compile:  only_compiling() --COMPILED--> the entries, and the program does not run
    start:    provide(entries) --FIND--> the program is loaded, and not compiled

The name of an application's function begins with PREFIX. Its programs have keys of their
own (their context contains MARK), so that they differ from programs of other functions:
those may be in memory only, from where they cannot be written to a file.

Threads: any; one application is compiled at a time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from ipufeed.executable.program.file_format import Entry
from ipufeed.process_state import STATE

PREFIX = "ipufeed_application_"
# In the compile context of an application's programs.
MARK = {"in_application": True}


class OnlyCompiledError(Exception):
    """An application was compiled, and must not run."""

    error_code = 1  # of absl's: cancelled


@dataclass
class _Provided:
    """Programs of application files; the lock guards them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    entries: dict[str, Entry] = field(default_factory=dict)
    captured: list[Entry] | None = None
    running: int = 0  # applications that are compiling or loading their programs


_provided = _Provided()
_one_at_a_time = threading.Lock()


@STATE.part("provided")
def _forget() -> None:
    with _provided.lock:
        _provided.entries.clear()


def belongs(name: str, shards: int) -> bool:
    """Whether a program belongs to an application, by its name or as a part.

    Args:
        name: XLA's name of the program.
        shards: 0 for a part of a program, such as the stages of one IPU of a pipeline.
    """
    if PREFIX in name:
        return True
    with _provided.lock:
        return shards == 0 and _provided.running > 0


def provide(entries: list[Entry]) -> None:
    """Registers the programs of a file."""
    with _provided.lock:
        for entry in entries:
            _provided.entries[str(entry.header["key"])] = entry


def find(key_hex: str, digest: str) -> Entry | None:
    """Returns a registered program with its executable, or None."""
    with _provided.lock:
        entry = _provided.entries.get(key_hex)
    if entry is None or entry.header.get("digest") != digest or not entry.executable:
        return None
    return entry


def require(key_hex: str, digest: str, shards: int) -> None:
    """Handles a request for an application's program, which may be registered.

    Raises:
        OnlyCompiledError: It is registered, and must not run.
    """
    entry = find(key_hex, digest)
    if entry is not None:
        register(entry, shards)


def register(entry: Entry, shards: int) -> None:
    """Registers a compiled program of an application.

    Raises:
        OnlyCompiledError: It is the application's last one, and must not run.
    """
    entry.header["shards"] = shards
    with _provided.lock:
        captured = _provided.captured
        _provided.entries[str(entry.header["key"])] = entry
        if captured is not None:
            captured.append(entry)
    if captured is not None and shards != 0:
        raise OnlyCompiledError("The application has been compiled, and does not run.")


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Marks the first call of an application's program, which compiles or loads parts."""
    with _provided.lock:
        _provided.running += 1
    try:
        yield
    finally:
        with _provided.lock:
            _provided.running -= 1


@contextlib.contextmanager
def only_compiling() -> Iterator[list[Entry]]:
    """Compiles applications in its block without running them; yields their programs.

    The last entry is the program itself, those before it are its parts.
    """
    entries: list[Entry] = []
    with _one_at_a_time, loading():
        with _provided.lock:
            _provided.captured = entries
        try:
            yield entries
        finally:
            with _provided.lock:
                _provided.captured = None
