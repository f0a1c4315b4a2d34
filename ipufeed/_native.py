"""Finds the native library, checks that it fits, and loads it once.

    load()  -> ops            the TensorFlow ops, as tf.load_op_library gives them
    entry() -> entry points   plain C functions, for what must not be an op

Everything that can be wrong with it is found here, before TensorFlow's loader would report
it with an undefined symbol or an abort.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import importlib.metadata
import json
import mmap
import operator
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipufeed import ending
from ipufeed.errors import (
    LibraryLoadedTwiceError,
    LibraryMissingError,
    LibraryVersionError,
    NativeLibraryError,
    TensorFlowStartedError,
)

LIBRARY = "libipufeed.so"
BUILD_INFO = b"ipufeed-build-info:"
REBUILD = "Run `pip install .` in the project's root to build it."
# Any op of ours: TensorFlow knows it as soon as a copy of the library is loaded.
AN_OP = "IpufeedMeasureDataset"
EXIT_GRACE_NS = 1_000_000_000
_MOST_MESSAGE = 1 << 14
# int (*)(int ordinal, char* message, int size)
ON_FIRST_USE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_int
)


@functools.cache
def load() -> Any:
    """Loads the library into TensorFlow and returns the module of its ops.

    Raises:
        NativeLibraryError: (an ImportError) with the way out; see `ipufeed.errors`.
    """
    path = find_library()
    info = build_info(path)
    import tensorflow as tf

    check_version(info["tensorflow"], tf.__version__)
    check_loaded_once(path)
    check_not_started()
    try:
        ops = tf.load_op_library(str(path))
    except (tf.errors.NotFoundError, OSError) as error:
        raise NativeLibraryError(explain_load_error(path, info, str(error))) from error
    # Without this, an exit during a measurement would leave the dataset's threads running
    # into an interpreter that is being taken down. A child of fork() has feeders, too, if
    # it starts some, and none of its parent's.
    os.register_at_fork(
        after_in_child=lambda: entry().ipufeed_forget_feeders_of_parent()
    )
    atexit.register(_stop_all)
    return ops


def _stop_all() -> None:
    """For the end of the process: ends programs and feeders."""
    ending.begin()
    entry().ipufeed_stop_all(EXIT_GRACE_NS)
    ending.wait_for_calls(EXIT_GRACE_NS / 1e9)


def is_ending() -> bool:
    """Whether the process ends, and what runs is being stopped."""
    return ending.has_begun()


def at_exit(function: Callable[[], object]) -> None:
    """Registers `function` for the end of this process, and not of its forks.

    A child of fork() has what its parent has registered, and none of the parent's threads.
    """
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:
            function()

    atexit.register(call)


def is_loaded() -> bool:
    """Whether load() has succeeded in this process."""
    return load.cache_info().currsize > 0


def _checked(kind: Any, bits: int) -> Any:
    """An argument type that refuses what ctypes would cut off in silence."""
    most = 2 ** (bits - 1)

    def from_param(_: Any, value: Any) -> Any:
        number = operator.index(value)
        if not -most <= number < most:
            raise OverflowError(
                f"a number for ipufeed's native library must be in [-2**{bits - 1}, "
                f"2**{bits - 1}), got {number}."
            )
        return kind(number)

    return type(f"Int{bits}", (kind,), {"from_param": classmethod(from_param)})


def _raise_last_error(*_: Any) -> None:
    """Raises what the failed call before it, of this thread, has left."""
    import tensorflow as tf

    message = ctypes.create_string_buffer(_MOST_MESSAGE)
    code = entry().ipufeed_last_error(message, _MOST_MESSAGE)
    kind = tf.compat.v1.errors.exception_type_from_error_code(code)
    raise kind(None, None, message.value.decode(errors="replace"))


def _fails_with(failed: int) -> Any:
    """What looks at each result of an entry point for the number that is an error."""

    def check(result: int, *_: Any) -> int:
        if result == failed:
            _raise_last_error()
        return result

    return check


def _entry_points(int64: Any, whole: Any) -> tuple[tuple[str, list[Any], Any], ...]:
    """Name, arguments and result of each C function, as in ipufeed/cc/capi.

    `int64` and `whole` are the types of numbers that are checked.
    """
    return (*_of_feeds(int64, whole), *_of_programs(int64, whole))


def _of_feeds(int64: Any, whole: Any) -> tuple[tuple[str, list[Any], Any], ...]:
    text = ctypes.c_char_p
    numbers = ctypes.POINTER(ctypes.c_int64)
    # Unchecked, half a microsecond less each: for calls per result, with numbers of ours.
    ours = ctypes.c_int64
    return (
        ("ipufeed_run_new", [], int64),
        ("ipufeed_run_free", [int64], whole),
        ("ipufeed_run_stop", [int64], whole),
        ("ipufeed_run_progress", [int64, numbers], whole),
        ("ipufeed_live_feeders", [], whole),
        ("ipufeed_forget_feeders_of_parent", [], whole),
        ("ipufeed_stop_all", [int64], whole),
        ("ipufeed_usable_cpus", [], whole),
        ("ipufeed_probes_new", [int64], int64),
        ("ipufeed_probes_free", [int64], whole),
        ("ipufeed_probe_read", [int64, int64, numbers], whole),
        # guard_c_api.cc
        ("ipufeed_last_error", [text, int64], whole),
        ("ipufeed_set_fault", [text, int64, whole], whole),
        ("ipufeed_fault_counts", [text, int64], whole),
        # feeds_c_api.cc
        ("ipufeed_name_infeed", [int64, text], whole),
        ("ipufeed_outfeed_new", [int64, text, whole, int64, whole], whole),
        ("ipufeed_infeed_stats", [int64, numbers], whole),
        ("ipufeed_outfeed_stats", [int64, numbers], whole),
        ("ipufeed_outfeed_runs", [int64], int64),
        ("ipufeed_outfeed_ends", [int64], int64),
        ("ipufeed_outfeed_wait", [ours] * 3, whole),
        ("ipufeed_outfeed_signature", [int64, ctypes.c_void_p, int64], int64),
        ("ipufeed_outfeed_next", [*[ours] * 4, ctypes.c_void_p, ours], whole),
        ("ipufeed_outfeed_busy", [int64], whole),
        ("ipufeed_outfeed_wait_for_all", [int64, whole, int64], whole),
        ("ipufeed_wait_idle", [whole, int64], whole),
        ("ipufeed_infeed_delete", [int64], whole),
        ("ipufeed_outfeed_delete", [int64], whole),
        ("ipufeed_infeed_forget", [int64], whole),
        ("ipufeed_outfeed_forget", [int64], whole),
        ("ipufeed_table_sizes", [numbers], whole),
        ("ipufeed_set_stall_report_ns", [int64], whole),
        ("ipufeed_set_outfeed_limit_bytes", [int64], whole),
        ("ipufeed_end_eager_programs", [whole], whole),
        ("ipufeed_stop_programs", [text], whole),
        ("ipufeed_wait_for_interrupt", [], whole),
        ("ipufeed_next_line", [text, int64], whole),
        ("ipufeed_main_thread_calls", [whole], whole),
    )


def _of_programs(int64: Any, whole: Any) -> tuple[tuple[str, list[Any], Any], ...]:
    text = ctypes.c_char_p
    numbers = ctypes.POINTER(ctypes.c_int64)
    return (
        ("ipufeed_set_on_first_use", [ON_FIRST_USE], whole),
        ("ipufeed_set_log_cycle_count", [whole], whole),
        ("ipufeed_forget_first_uses", [], whole),
        # the type of the last is in parallel/processes.py
        ("ipufeed_set_processes", [whole, whole, ctypes.c_void_p], whole),
        ("ipufeed_last_collective_run_failed", [], whole),
        ("ipufeed_set_ipus", [whole, whole], whole),
        ("ipufeed_ipus", [whole], whole),
        ("ipufeed_set_seed", [whole, int64, whole], whole),
        ("ipufeed_forget_seeds", [], whole),
        ("ipufeed_set_synthetic_seed", [whole], whole),
        # executable_c_api.cc; the types of the first are in executable/native.py
        ("ipufeed_set_on_program", [ctypes.c_void_p], whole),
        # host_c_api.cc; the type of its argument is in ops/host_calls.py
        ("ipufeed_set_on_host_call", [ctypes.c_void_p], whole),
        ("ipufeed_set_run_mode", [whole], whole),
        ("ipufeed_forget_loaded", [], whole),
        ("ipufeed_forget_programs", [], whole),
        ("ipufeed_set_compiles_graphs", [whole], whole),
        ("ipufeed_set_log_ops", [whole], whole),
        ("ipufeed_take_op_loads", [numbers], whole),
        # the types of their last are in executable/key.py and executable/hlo_text.py
        ("ipufeed_canonical", [text, int64, ctypes.c_void_p], whole),
        ("ipufeed_hlo_text", [text, int64, whole, ctypes.c_void_p], whole),
        # trace_c_api.cc
        ("ipufeed_trace_start", [int64], whole),
        ("ipufeed_trace_stop", [numbers], int64),
        ("ipufeed_trace_take", [ctypes.c_void_p, int64], int64),
        ("ipufeed_trace_name", [whole, int64, text, int64], whole),
        # datasets_c_api.cc; the struct is in sources/record_scan.py
        ("ipufeed_count_elements_at", [ctypes.c_void_p], whole),
        ("ipufeed_scan_records", [ctypes.c_void_p, ctypes.c_void_p, int64], int64),
    )


@functools.cache
def entry() -> ctypes.CDLL:
    """The C entry points of the loaded library (ipufeed/cc/capi documents them).

    Each raises the TensorFlow error that it has failed with (ipufeed/cc/capi/api.h), and a
    ctypes.ArgumentError for a number that its argument cannot hold.
    """
    load()
    library = ctypes.CDLL(str(find_library()))
    int64, whole = _checked(ctypes.c_int64, 64), _checked(ctypes.c_int, 32)
    checks = {int64: _fails_with(-(2**63)), whole: _fails_with(-(2**31))}
    results = {int64: ctypes.c_int64, whole: ctypes.c_int}
    for name, arguments, result in _entry_points(int64, whole):
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = results[result]
        function.errcheck = checks[result]
    return library


@functools.cache
def find_library() -> Path:
    """The library next to this file or, in a checkout, the installed package's.

    A checkout that was installed with `pip install .` has its Python files in the
    working directory and its library elsewhere; `python -m ipufeed.benchmark` from there
    takes the first and must still find the second.
    """
    here = Path(__file__).resolve().parent
    path = here / LIBRARY
    if not path.exists():
        installed = installed_library()
        if installed is None:
            raise LibraryMissingError(
                f"ipufeed's native library is not built: {path} does not exist. {REBUILD}"
            )
        path = installed
    sources = here / "cc"  # not in a wheel
    if sources.is_dir() and build_info(path)["sources"] != fingerprint(sources):
        raise LibraryVersionError(
            f"{path} was built from other sources than {sources} holds. {REBUILD}"
        )
    return path


def installed_library() -> Path | None:
    """The library of an installed ipufeed, if there is one."""
    for folder in sys.path:
        for distribution in importlib.metadata.distributions(
            name="ipufeed", path=[folder]
        ):
            path = Path(str(distribution.locate_file(f"ipufeed/{LIBRARY}")))
            if path.exists():
                return path.resolve()
    return None


def build_info(path: Path) -> dict[str, str]:
    """What setup.py wrote into the library: versions, sources, sanitizer.

    Read from the file, not by loading it: a library that was built against another
    TensorFlow cannot be loaded, and the loader's own message would not name the cause.
    """
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as text,
    ):
        start = text.find(BUILD_INFO)
        end = text.find(b"\0", start)
        if start < 0 or end < 0:
            raise LibraryVersionError(
                f"{path} is damaged, or no library of ipufeed's. {REBUILD}"
            )
        info: dict[str, str] = json.loads(text[start + len(BUILD_INFO) : end])
    return info


def fingerprint(folder: Path) -> str:
    """A hash of the native sources; setup.py computes it in the same way."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".cc", ".h"):
            name = path.relative_to(folder).as_posix()
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def check_version(built: str, installed: str) -> None:
    """TensorFlow's C++ interface changes between minor versions, without notice."""
    if built.split(".")[:2] != installed.split(".")[:2]:
        raise LibraryVersionError(
            f"ipufeed's native library was built against TensorFlow {built}, but "
            f"{installed} is installed. Rebuild it with `pip install --force-reinstall "
            f'--no-deps .`, or go back with `pip install "tensorflow=={built}"`.'
        )


def check_loaded_once(path: Path) -> None:
    """A second copy would register every op again, which aborts the process."""
    from tensorflow.python.framework import op_def_registry

    if op_def_registry.get(AN_OP) is None:
        return
    loaded = loaded_libraries()
    if loaded != {str(path)}:
        raise LibraryLoadedTwiceError(
            f"this process has loaded ipufeed's native library from "
            f"{', '.join(sorted(loaded)) or 'elsewhere'} and cannot load {path} as well. "
            "Start a new process, with one ipufeed on sys.path."
        )


def loaded_libraries() -> set[str]:
    """The paths of all copies of our library that are mapped into this process."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in maps if "/" in line}
    return {path for path in paths if path.endswith("/" + LIBRARY)}


def check_not_started() -> None:
    """TensorFlow lists its devices at its first op, and never again."""
    from tensorflow.python.eager import context

    started = context._context is not None and context._context._context_handle
    if started:
        raise TensorFlowStartedError(
            "TensorFlow has already run an op or listed its devices in this process, and "
            "can take up no new ones. Put `import ipufeed` before the first use of "
            "TensorFlow (before `tf.constant`, `tf.data`, `tf.config.list_*`), or restart "
            "the notebook's kernel and import it first."
        )


def explain_load_error(path: Path, info: dict[str, str], error: str) -> str:
    """The loader's message, with what to do about it."""
    if info["sanitizer"]:
        return (
            f"{path} was built with IPUFEED_SANITIZE={info['sanitizer']} and needs the "
            "sanitizer in the process from the start: set LD_PRELOAD to the output of "
            f"`g++ -print-file-name={info['sanitizer_library']}`. Its message: {error}"
        )
    return f"TensorFlow cannot load {path}: {error}. {REBUILD}"
