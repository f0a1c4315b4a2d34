"""Handles the events of programs while they are compiled and loaded.

    Event.KEY                         compute the key (key.py), check options
    Event.FIND                        look in the disk cache, or refuse to compile
    Event.LOADED / COMPILED / FAILED  log, count, store, record in the history
    Event.ONTO_DEVICE                 log, count

Threads: events come on any thread; those of one program one after another.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tensorflow.python.framework import errors

from ipufeed.device.flags import flags
from ipufeed.device.log import LOGGER
from ipufeed.device.program.replication import replicate
from ipufeed.device.system import system
from ipufeed.executable.compile import no_recompile, phase_log
from ipufeed.executable.compile.history import History
from ipufeed.executable.program import events as native
from ipufeed.executable.program.context import compile_context
from ipufeed.executable.program.events import (
    Event,
    Figures,
    Lowered,
    ProgramCall,
)
from ipufeed.executable.program.file_format import Entry
from ipufeed.executable.program.key import Key, program_key
from ipufeed.executable.program.program import Program, set_programs
from ipufeed.executable.report import limits
from ipufeed.executable.report import write as report
from ipufeed.executable.store import provided
from ipufeed.executable.store.cache import Cache, Slot, cache_folder
from ipufeed.executable.store.counters import COUNTERS
from ipufeed.process_state import STATE
from ipufeed.queues import interrupt
from ipufeed.render.files import write_whole

NO_CACHE_PATH = (
    "IPU devices have been configured for pre-compilation, however "
    "'executable_cache_path' in 'TF_POPLAR_FLAGS' has not been set. Set it to the folder "
    "that the programs are to be written to: "
    "TF_POPLAR_FLAGS='--executable_cache_path=/tmp/executables'."
)


@dataclass
class _Work:
    """A program between the events KEY and COMPILED or LOADED."""

    program: Program
    request: report.Request
    shards: int = 1
    in_application: bool = False
    slot: Slot | None = None
    bar: phase_log.ProgressBar | None = None
    found: object = None  # the bytes of its file, while the core reads them


@dataclass
class _Programs:
    """The state of this module. The lock guards it, and is never held during a wait."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    works: dict[int, _Work] = field(default_factory=dict)
    caches: dict[Path, Cache] = field(default_factory=dict)
    # Cost of reading a program's file: part of its first load onto a device.
    read: dict[int, Figures] = field(default_factory=dict)
    history: History = field(default_factory=History)


_programs = _Programs()


@STATE.part("programs")
def _forget_programs() -> None:
    with _programs.lock:
        _programs.caches.clear()
        _programs.read.clear()
        _programs.history = History()


def history() -> History:
    """Returns the history of the programs that this process has compiled or read."""
    return _programs.history


set_programs(lambda: history().programs())


def handle(event: Event, call: ProgramCall) -> None:
    """Handles an event of the native core; an exception refuses the program."""
    match event:
        case Event.KEY:
            call.key = begin(native.lowered(call)).number
        case Event.SHARED:
            COUNTERS.add(memory_hits=1)
            work = take(call.id)
            phase_log.log_compiler(1, f"{work.program} is in memory")
        case Event.FIND:
            work = _programs.works[call.id]
            entry = _find(work)
            if entry is not None:
                work.found = ctypes.create_string_buffer(entry.executable)
                call.executable = ctypes.addressof(work.found)
                call.executable_size = len(entry.executable)
        case Event.LOADED:
            _loaded(take(call.id), native.figures(call), call.key)
        case Event.UNUSABLE:
            _unusable(_programs.works[call.id], native.message_of(call))
        case Event.COMPILED:
            executable = b""
            if call.executable_size:
                executable = ctypes.string_at(call.executable, call.executable_size)
            compiled(take(call.id), native.figures(call), executable)
        case Event.FAILED:
            _failed(take(call.id), native.message_of(call))
        case Event.ONTO_DEVICE:
            _onto_device(call)


def take(number: int) -> _Work:
    """Removes and returns a program at its last event."""
    with _programs.lock:
        return _programs.works.pop(number)


def begin(lowered: Lowered) -> Key:
    """Begins the work on a program; returns its key.

    Raises:
        tf.errors.InternalError: The program's shards do not divide the device's IPUs.
    """
    if lowered.shards:  # not a part of one that is being compiled
        replicate(system.require_usable(lowered.ordinal), lowered.shards)
    request = report.request(lowered)  # an invalid option refuses the program
    start = time.perf_counter()
    in_application = provided.belongs(lowered.name, lowered.shards)
    if system.precompiles() and not in_application:
        _require_cache_path()
    compiled_for = compile_context(lowered.ordinal)
    if in_application:
        compiled_for = compiled_for | provided.MARK
    key = program_key(lowered.hlo, compiled_for)
    seconds = time.perf_counter() - start
    COUNTERS.add(key_seconds=seconds)
    if in_application:
        provided.require(key.hex, key.digest, lowered.shards)
    program = Program.of(lowered, key, compiled_for)
    phase_log.log_compiler(1, f"{program}: its key took {seconds:.4f} s")
    phase_log.log_compiler(2, f"{program}: {len(lowered.hlo)} bytes of HLO")
    with _programs.lock:
        work = _Work(program, request, lowered.shards, in_application)
        _programs.works[lowered.id] = work
    return key


def _require_cache_path() -> None:
    """Raises FailedPreconditionError unless --executable_cache_path is set."""
    if not flags.get_flags().executable_cache_path:
        raise errors.FailedPreconditionError(None, None, NO_CACHE_PATH)


def _cache() -> Cache | None:
    """Returns the cache of --executable_cache_path, or None."""
    folder = cache_folder()
    if folder is None:
        return None
    with _programs.lock:
        return _programs.caches.setdefault(folder, Cache(folder))


def _find(work: _Work) -> Entry | None:
    """Returns the program from a file; if it has none, prepares its compilation.

    Raises:
        RecompileError: A no_recompile() block is open.
        tf.errors.CancelledError: Ctrl-C, while another process compiled it.
        tf.errors.FailedPreconditionError: It must be pre-compiled, and cannot be saved.
    """
    program = work.program
    # An application's programs are in its own file.
    place = None if work.in_application else _cache()
    found: Entry | Slot | None = provided.find(program.key.hex, program.key.digest)
    if place is not None:
        stopped = _interrupted()
        found = place.find(program.key.hex, program.key.digest, stopped)
        if stopped() and not isinstance(found, Entry):
            if found is not None:
                found.release()
            raise errors.CancelledError(
                None, None, "interrupted while another process compiled the program"
            )
    if isinstance(found, Entry):
        phase_log.log_compiler(1, f"{program} has been found")
        return found
    work.slot = found
    try:
        if place is not None and found is None and system.precompiles():
            _refuse_lost_program(place)
        no_recompile.check(program, _programs.history)
    except BaseException:
        if found is not None:
            found.release()
        raise
    phase_log.phase_begins(phase_log.COMPILING)
    work.bar = phase_log.ProgressBar(program.name)
    work.bar.__enter__()
    return None


def _interrupted() -> Callable[[], bool]:
    """Returns a function: whether a Ctrl-C has come since this call."""
    interrupt.watch()
    before = interrupt.interrupts()
    return lambda: interrupt.interrupts() != before


def _refuse_lost_program(place: Cache) -> None:
    """Raises FailedPreconditionError: the program cannot be saved."""
    raise errors.FailedPreconditionError(
        None,
        None,
        f"The program cannot be pre-compiled: there is no folder {place.folder} that "
        "only you can write to (the warning before this has the cause).",
    )


def _loaded(work: _Work, figures: Figures, key: int) -> None:
    """Handles a program that was loaded from its file."""
    with _programs.lock:
        _programs.read[key] = figures
    COUNTERS.add(disk_hits=1, read_seconds=figures.duration_s)
    _programs.history.add(work.program, compiled=False)
    if system.precompiles():
        place = _cache()
        where = place.path(work.program.key.hex) if place else ""
        LOGGER.info("The pre-compiled Poplar program %s is up to date", where)


def _unusable(work: _Work, why: str) -> None:
    """Handles a whole file that XLA cannot load: the program is compiled instead."""
    work.found = None
    place = None if work.in_application else _cache()
    if place is not None:
        place.reject(place.path(work.program.key.hex), why)
    no_recompile.check(work.program, _programs.history)
    if place is not None:
        work.slot = place.slot(work.program.key.hex, _interrupted())
    phase_log.phase_begins(phase_log.COMPILING)


def compiled(work: _Work, figures: Figures, executable: bytes) -> None:
    """Handles a compiled program: logs, reports, stores and records it."""
    program = work.program
    try:
        if work.bar is not None:
            work.bar.close("Compilation Finished")
        phase_log.phase_ends(phase_log.COMPILING, figures.duration_s, figures.rss_bytes)
        COUNTERS.add(compiles=1, compile_seconds=figures.duration_s)
        LOGGER.info(
            "Compiled %s in %.2f s (hash %s)",
            program.name,
            figures.duration_s,
            program.key.hex,
        )
        phase_log.log_compiler(1, f"{program} compiled in {figures.duration_s:.4f} s")
        phase_log.log_compiler(2, f"{program}: {len(executable)} bytes to store")
        report.write(work.request, program, figures, executable)
        limits.check(work.request.limits, program.name, executable)
        entry = program.entry(executable, figures.duration_s)
        _save(work, entry)
        _serialize(entry, program)
        _programs.history.add(program, compiled=True)
        if work.in_application:
            provided.register(entry, work.shards)
    finally:
        if work.slot is not None:
            work.slot.release()


def _save(work: _Work, entry: Entry) -> None:
    """Writes the program's file; a failure is a warning, as later processes can compile it.

    Raises:
        tf.errors.ResourceExhaustedError: Pre-compiling failed to write it.
    """
    if work.slot is None:
        return
    if not entry.executable:
        LOGGER.warning(
            "Executable caching has been enabled, however %s cannot be serialised and "
            "is compiled by each process.",
            work.program.name,
        )
        return
    try:
        path = work.slot.store(entry)
    except OSError as error:
        text = f"{work.slot.path} cannot be written: {error.strerror or error}."
        if system.precompiles():
            raise errors.ResourceExhaustedError(None, None, text) from error
        LOGGER.warning("%s The program runs all the same.", text)
        return
    COUNTERS.add(saved=1)
    if system.precompiles():
        LOGGER.info("A pre-compiled Poplar program has been saved to %s", path)
    else:
        phase_log.log_compiler(1, f"{work.program} has been saved to {path}")


def _serialize(entry: Entry, program: Program) -> None:
    """Writes the program and its interface to `serialization_output_folder`."""
    folder = system.configured().serialization_output_folder
    if not folder or not entry.executable:
        return
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    write_whole(path / f"{program.key.hex}.ipu_bin", entry.executable, mode=0o600)
    text = json.dumps(program.interface(), indent=2)
    write_whole(path / f"{program.key.hex}.json", text.encode(), mode=0o600)


def _failed(work: _Work, why: str) -> None:
    """Handles a failed compilation; TensorFlow raises XLA's message."""
    if work.bar is not None:
        work.bar.close("Compilation Failed")
    phase_log.log_compiler(1, f"{work.program} could not be compiled: {why}")
    if work.slot is not None:
        work.slot.release()


def _onto_device(call: ProgramCall) -> None:
    """Handles a load of a program onto a device that did not hold it."""
    figures = native.figures(call)
    with _programs.lock:
        reading = _programs.read.pop(call.key, Figures(0.0, 0))
    seconds = figures.duration_s + reading.duration_s
    COUNTERS.add(loads=1, switches=bool(call.previous), load_seconds=seconds)
    phase_log.phase_begins(phase_log.LOADING)
    phase_log.phase_ends(
        phase_log.LOADING, seconds, figures.rss_bytes + reading.rss_bytes
    )
    name = native.text(call.name)
    before = f" in place of {call.previous:x}" if call.previous else ""
    phase_log.log_executable(
        1, f"{name} ({call.key:x}) is on IPU {call.ordinal}{before}"
    )
