"""Compiled programs that come with application files, and those that go into one.

    compile:  only_compiling() --COMPILED--> the entries, and the program does not run
    start:    provide(entries) --FIND--> the program is loaded, and not compiled

An application's function has a name that begins with PREFIX. Its programs have keys of
their own (`in_application` is a part of them), so that they are not those that other
functions of the process have compiled: what is in memory alone cannot be written to a file.

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
# Of the surroundings of an application's programs.
MARK = {"in_application": True}


class OnlyCompiledError(Exception):
    """An application has been compiled, and was not to run."""

    error_code = 1  # of absl's: cancelled


@dataclass
class _Provided:
    """What application files have brought; the lock guards it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    entries: dict[str, Entry] = field(default_factory=dict)
    captured: list[Entry] | None = None
    running: int = 0  # applications that compile or load their programs


_provided = _Provided()
_one_at_a_time = threading.Lock()


@STATE.part("provided")
def _forget() -> None:
    with _provided.lock:
        _provided.entries.clear()


def belongs(name: str, shards: int) -> bool:
    """Whether a program is an application's: by its name, or as a part of one.

    Args:
        name: What XLA calls the program.
        shards: 0 for a part of a program, such as the stages of one IPU of a pipeline.
    """
    if PREFIX in name:
        return True
    with _provided.lock:
        return shards == 0 and _provided.running > 0


def provide(entries: list[Entry]) -> None:
    """Makes programs of a file known to this process."""
    with _provided.lock:
        for entry in entries:
            _provided.entries[str(entry.header["key"])] = entry


def find(key_hex: str, digest: str) -> Entry | None:
    """The program of a key, if a file has brought it and this process compiles it so."""
    with _provided.lock:
        entry = _provided.entries.get(key_hex)
    if entry is None or entry.header.get("digest") != digest or not entry.executable:
        return None
    return entry


def known(key_hex: str, digest: str, shards: int) -> None:
    """A program of an application is wanted, which may be known already.

    Raises:
        OnlyCompiledError: It is, and is not to run.
    """
    entry = find(key_hex, digest)
    if entry is not None:
        compiled(entry, shards)


def compiled(entry: Entry, shards: int) -> None:
    """A program of an application has been compiled.

    Raises:
        OnlyCompiledError: All of the application has been, and it is not to run.
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
    """Within it an application's program is called for the first time."""
    with _provided.lock:
        _provided.running += 1
    try:
        yield
    finally:
        with _provided.lock:
            _provided.running -= 1


@contextlib.contextmanager
def only_compiling() -> Iterator[list[Entry]]:
    """Within it applications are compiled and do not run; lists their programs.

    The program itself is the last one.
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
