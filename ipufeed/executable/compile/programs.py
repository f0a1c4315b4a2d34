"""The programs of this process: their events while they are compiled and run.

    Event.KEY          key.py: what is it?         and may it be compiled at all?
    Event.FIND         cache.py: is there a file?  no_recompile() refuses here
    Event.LOADED / COMPILED / FAILED               log, count, store, remember
    Event.ONTO_DEVICE                              log, count

Threads: events come on any thread; those of one program one after another.
"""

from __future__ import annotations

import ctypes
import functools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipufeed import _native
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.flags import flags
from ipufeed.device.log import LOGGER
from ipufeed.device.program.replication import replicate
from ipufeed.device.system import system
from ipufeed.executable.compile import no_recompile, phase_log
from ipufeed.executable.compile.history import History
from ipufeed.executable.program import events as native
from ipufeed.executable.program import in_process
from ipufeed.executable.program.context import surroundings_of
from ipufeed.executable.program.events import Event, Figures, Lowered, RunMode
from ipufeed.executable.program.file_format import Entry
from ipufeed.executable.program.key import Key, program_key
from ipufeed.executable.program.program import Program
from ipufeed.executable.report import write as report
from ipufeed.executable.store import provided
from ipufeed.executable.store.cache import Cache, Slot, write_whole
from ipufeed.executable.store.counters import COUNTERS
from ipufeed.executable.tracing import recorder
from ipufeed.process_state import STATE
from ipufeed.queues import interrupt

NO_CACHE_PATH = (
    "IPU devices have been configured for pre-compilation, however "
    "'executable_cache_path' in 'TF_POPLAR_FLAGS' has not been set. Set it to the folder "
    "that the programs are to be written to: "
    "TF_POPLAR_FLAGS='--executable_cache_path=/tmp/executables'."
)


@dataclass
class _Work:
    """A program on its way from KEY to COMPILED or LOADED."""

    program: Program
    wanted: report.Request
    shards: int = 1
    in_application: bool = False
    slot: Slot | None = None
    bar: phase_log.ProgressBar | None = None
    found: Any = None  # the bytes of its file, while the core reads them


@dataclass
class _Programs:
    """All that is known. The lock guards it, and is not held while anything waits."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    works: dict[int, _Work] = field(default_factory=dict)
    caches: dict[str, Cache] = field(default_factory=dict)
    # What reading a program's file took: part of its first load onto a device.
    read: dict[int, Figures] = field(default_factory=dict)
    history: History = field(default_factory=History)
    generation: int = 0  # of the system, whose programs these are


_programs = _Programs()


@STATE.part("programs")
def _forget_programs() -> None:
    with _programs.lock:
        _programs.caches.clear()
        _programs.read.clear()
        _programs.history = History()


def history() -> History:
    """The programs that this process has compiled or read."""
    return _programs.history


def handle(event: Event, call: Any) -> None:
    """Takes one event of the native core; what it raises refuses the program."""
    match event:
        case Event.KEY:
            call.key = begin(native.lowered(call)).number
        case Event.SHARED:
            COUNTERS.add(memory_hits=1)
            work = take(call.id)
            phase_log.log_compiler(1, f"{work.program} is in memory")
        case Event.FIND:
            work = _programs.works[call.id]
            entry = find(work)
            if entry is not None:
                work.found = ctypes.create_string_buffer(entry.executable)
                call.executable = ctypes.addressof(work.found)
                call.executable_size = len(entry.executable)
        case Event.LOADED:
            read(take(call.id), native.figures(call), call.key)
        case Event.UNUSABLE:
            unusable(_programs.works[call.id], native.message_of(call))
        case Event.COMPILED:
            executable = b""
            if call.executable_size:
                executable = ctypes.string_at(call.executable, call.executable_size)
            compiled(take(call.id), native.figures(call), executable)
        case Event.FAILED:
            failed(take(call.id), native.message_of(call))
        case Event.ONTO_DEVICE:
            onto_device(call)


def take(number: int) -> _Work:
    """A program's last event: it is forgotten."""
    with _programs.lock:
        return _programs.works.pop(number)


def begin(lowered: Lowered) -> Key:
    """A program is to be compiled: its key.

    Raises:
        tf.errors.InternalError: Its shards do not divide the IPUs of its device.
    """
    if lowered.shards:  # not a part of one that is being compiled
        replicate(system.require_usable(lowered.ordinal), lowered.shards)
    wanted = report.request(lowered)  # an invalid option refuses the program
    start = time.perf_counter()
    in_application = provided.belongs(lowered.name, lowered.shards)
    if system.precompiles() and not in_application:
        require_cache_path()
    compiled_for = surroundings_of(lowered.ordinal)
    if in_application:
        compiled_for = compiled_for | provided.MARK
    key = program_key(lowered.hlo, compiled_for)
    seconds = time.perf_counter() - start
    COUNTERS.add(key_seconds=seconds)
    if in_application:
        provided.known(key.hex, key.digest, lowered.shards)
    program = Program.of(lowered, key, compiled_for)
    phase_log.log_compiler(1, f"{program}: its key took {seconds:.4f} s")
    phase_log.log_compiler(2, f"{program}: {len(lowered.hlo)} bytes of HLO")
    with _programs.lock:
        work = _Work(program, wanted, lowered.shards, in_application)
        _programs.works[lowered.id] = work
    return key


def require_cache_path() -> None:
    """Raises FailedPreconditionError unless --executable_cache_path is set."""
    if flags.get_flags().executable_cache_path:
        return
    from tensorflow.python.framework import errors

    raise errors.FailedPreconditionError(None, None, NO_CACHE_PATH)


def cache() -> Cache | None:
    """The cache that the flags name, or None."""
    folder = flags.get_flags().executable_cache_path
    if not folder:
        return None
    with _programs.lock:
        return _programs.caches.setdefault(folder, Cache(Path(folder).expanduser()))


def find(work: _Work) -> Entry | None:
    """The program's file; without one it is about to be compiled.

    Raises:
        RecompileError: `no_recompile` is on.
        tf.errors.CancelledError: Ctrl-C, while another process compiled it.
        tf.errors.FailedPreconditionError: it is to be pre-compiled, and cannot be saved.
    """
    program = work.program
    # An application's programs are in its file.
    place = None if work.in_application else cache()
    found: Entry | Slot | None = provided.find(program.key.hex, program.key.digest)
    if place is not None:
        stopped = interrupted()
        found = place.find(program.key.hex, program.key.digest, stopped)
        if stopped() and not isinstance(found, Entry):
            drop(found)
            from tensorflow.python.framework import errors

            raise errors.CancelledError(
                None, None, "interrupted while another process compiled the program"
            )
    if isinstance(found, Entry):
        phase_log.log_compiler(1, f"{program} has been found")
        return found
    work.slot = found
    try:
        if place is not None and found is None and system.precompiles():
            refuse_lost_program(place)
        no_recompile.check(program, _programs.history)
    except BaseException:
        drop(found)
        raise
    phase_log.phase_begins(phase_log.COMPILING)
    work.bar = phase_log.ProgressBar(program.name)
    work.bar.__enter__()
    return None


def interrupted() -> Callable[[], bool]:
    """Returns a function: whether there has been a Ctrl-C since."""
    interrupt.watch()
    before = interrupt.interrupts()
    return lambda: interrupt.interrupts() != before


def drop(found: object) -> None:
    """Gives up a program that is not compiled."""
    if isinstance(found, Slot):
        found.release()


def refuse_lost_program(place: Cache) -> None:
    """Raises FailedPreconditionError: what is compiled could not be saved."""
    from tensorflow.python.framework import errors

    raise errors.FailedPreconditionError(
        None,
        None,
        f"The program cannot be pre-compiled: there is no folder {place.folder} that "
        "only you can write to (the warning before this has the cause).",
    )


def read(work: _Work, figures: Figures, key: int) -> None:
    """Its file has become a program."""
    with _programs.lock:
        _programs.read[key] = figures
    COUNTERS.add(disk_hits=1, read_seconds=figures.duration_s)
    _programs.history.add(work.program, compiled=False)
    if system.precompiles():
        place = cache()
        where = place.path(work.program.key.hex) if place else ""
        LOGGER.info("The pre-compiled Poplar program %s is up to date", where)


def unusable(work: _Work, why: str) -> None:
    """Its file is whole, but XLA cannot load it: it will be compiled."""
    work.found = None
    place = None if work.in_application else cache()
    if place is not None:
        place.reject(place.path(work.program.key.hex), why)
    no_recompile.check(work.program, _programs.history)
    if place is not None:
        work.slot = place.slot(work.program.key.hex, interrupted())
    phase_log.phase_begins(phase_log.COMPILING)


def compiled(work: _Work, figures: Figures, executable: bytes) -> None:
    """It has been compiled: logs that, stores it and remembers it."""
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
        report.write(work.wanted, program, figures, executable)
        report.check(work.wanted, program, executable)
        entry = program.entry(executable, figures.duration_s)
        save(work, entry)
        serialize(entry, program)
        _programs.history.add(program, compiled=True)
        if work.in_application:
            provided.compiled(entry, work.shards)
    finally:
        if work.slot is not None:
            work.slot.release()


def save(work: _Work, entry: Entry) -> None:
    """Writes the file; what cannot be written is lost to later processes only.

    Raises:
        OSError: ... but not in PRE_COMPILE, which is done for the file.
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
            from tensorflow.python.framework import errors

            raise errors.ResourceExhaustedError(None, None, text) from error
        LOGGER.warning("%s The program runs all the same.", text)
        return
    COUNTERS.add(saved=1)
    if system.precompiles():
        LOGGER.info("A pre-compiled Poplar program has been saved to %s", path)
    else:
        phase_log.log_compiler(1, f"{work.program} has been saved to {path}")


def serialize(entry: Entry, program: Program) -> None:
    """`serialization_output_folder`: the program, and what it takes and gives, as JSON."""
    folder = system.configured().serialization_output_folder
    if not folder or not entry.executable:
        return
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    write_whole(path / f"{program.key.hex}.ipu_bin", entry.executable)
    text = json.dumps(program.interface(), indent=2)
    write_whole(path / f"{program.key.hex}.json", text.encode())


def failed(work: _Work, why: str) -> None:
    """XLA could not compile it; TensorFlow raises XLA's message."""
    if work.bar is not None:
        work.bar.close("Compilation Failed")
    phase_log.log_compiler(1, f"{work.program} could not be compiled: {why}")
    if work.slot is not None:
        work.slot.release()


def onto_device(call: Any) -> None:
    """A device has got a program that it did not hold."""
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


RUN_MODES = {
    DeviceConnectionType.PRE_COMPILE: RunMode.ZEROS,
    DeviceConnectionType.NEVER: RunMode.REFUSE,
}
_callback = native.callback(handle)


def follow_configuration() -> None:
    """The configuration has changed: devices are empty, and programs may not run.

    What was compiled for another one is compiled again, with its report; the same
    configuration once more leaves programs where they are.
    """
    entry = _native.entry()
    entry.ipufeed_forget_loaded()
    if _programs.generation != system.generation():  # under the system's lock
        _programs.generation = system.generation()
        entry.ipufeed_forget_programs()
    entry.ipufeed_set_log_ops(phase_log.logs_phases())
    mode = RUN_MODES.get(system.connection_type(), RunMode.RUN)
    entry.ipufeed_set_run_mode(mode)


@functools.cache
def install() -> None:
    """Puts this between TensorFlow and XLA, for programs of simulated IPUs; once."""
    entry = _native.entry()
    entry.ipufeed_set_on_program(_callback)
    in_process.set_programs(lambda: history().programs())
    system.on_change(follow_configuration)
    entry.ipufeed_set_log_ops(phase_log.logs_phases())
    recorder.follow_environment()
