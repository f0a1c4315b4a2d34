"""Finds, checks and loads the native library, once per process.

    load()  -> ops            the TensorFlow ops: a module with a function for each
    entry() -> entry points   C functions, for calls that must not be ops

Each fault of the library is detected here, before TensorFlow's loader reports
an undefined symbol or aborts.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import json
import mmap
import operator
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, cast

from ipufeed import ending
from ipufeed._entry_points import ENTRY_POINTS, INT32, INT64
from ipufeed.errors import (
    LibraryLoadedTwiceError,
    LibraryMissingError,
    LibraryVersionError,
    NativeLibraryError,
    TensorFlowStartedError,
)

if TYPE_CHECKING:
    from _ctypes import CFuncPtr as CFunction

    from tensorflow.core.framework.op_def_pb2 import OpList

LIBRARY = "libipufeed.so"
BUILD_INFO = b"ipufeed-build-info:"
REBUILD = "Run `pip install .` in the project's root to build it."
EXIT_GRACE_NS = 1_000_000_000
# How long the exit waits for daemon threads that trace, compile or run a function.
FUNCTION_GRACE_S = 5.0
_MOST_MESSAGE = 1 << 14


@functools.cache
def load() -> ModuleType:
    """Loads the library into TensorFlow and returns the module of its ops.

    Raises:
        NativeLibraryError: An ImportError whose message has the remedy.
    """
    path = find_library()
    info = build_info(path)
    if "tensorflow" not in sys.modules:
        import_triton()
    import tensorflow as tf

    check_version(info["tensorflow"], tf.__version__)
    _check_loaded_once(path)
    _check_not_started()
    try:
        ops = _load_ops(path)
    except (tf.errors.NotFoundError, OSError) as error:
        raise NativeLibraryError(_explain_load_error(path, info, str(error))) from error
    # A fork has none of its parent's feeders. Without _stop_all, an exit during a
    # measurement would leave the dataset's threads running while Python shuts down.
    os.register_at_fork(
        after_in_child=lambda: entry().ipufeed_forget_feeders_of_parent()
    )
    atexit.register(_stop_all)
    return ops


def import_triton(is_expected: bool = False) -> None:
    """Imports triton, torch's compiler, which crashes the process behind TensorFlow.

    Args:
        is_expected: Whether to import it before torch has been, too. Where it is not
            installed nothing is done.
    """
    if is_expected or "torch" in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module("triton")


class _Ops(ModuleType):
    """A module like that of tf.load_op_library; a function is made when it is first used.

    tf.load_op_library makes all at once. To compile their text took half of the time of
    `import ipufeed`, and a program uses a few of them.

    Threads: any. Two that use an op first may both make its function; both get one of them.
    """

    def __init__(self, definitions: OpList) -> None:
        super().__init__("_ipufeed_ops")
        self._definitions = {_function_name(op.name): op for op in definitions.op}

    def __getattr__(self, name: str) -> Any:
        definition = self.__dict__.get("_definitions", {}).get(name)
        if definition is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from tensorflow.core.framework.op_def_pb2 import OpList
        from tensorflow.python.framework import _pywrap_python_op_gen

        only = OpList(op=[definition]).SerializeToString()
        text = _pywrap_python_op_gen.GetPythonWrappers(only)
        # Without this file's `from __future__`: TensorFlow reads the annotations. In a
        # namespace of its own, so that no thread finds the function before what it uses.
        own = {"__name__": self.__name__}
        exec(compile(text, self.__name__, "exec", dont_inherit=True), own)
        return self.__dict__.setdefault(name, own[name])

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._definitions})


# TensorFlow's rule: a word begins at a capital letter that follows a small one, or that a
# small one follows.
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<!^)(?=[A-Z][a-z])")


def _function_name(op: str) -> str:
    """Returns the name of an op's function: `ipufeed_clock` for IpufeedClock."""
    return _WORD.sub("_", op).lower()


def _load_ops(path: Path) -> _Ops:
    """Loads a library of ops into TensorFlow, and returns their functions."""
    from tensorflow.core.framework.op_def_pb2 import OpList
    from tensorflow.python.client import pywrap_tf_session

    handle = pywrap_tf_session.TF_LoadLibrary(str(path))
    try:
        ops = _Ops(OpList.FromString(pywrap_tf_session.TF_GetOpList(handle)))
    finally:
        pywrap_tf_session.TF_DeleteLibraryHandle(handle)
    sys.modules["_ipufeed_ops"] = ops  # as its functions' __module__ says
    return ops


def _stop_all() -> None:
    """Stops programs and feeders when the process ends."""
    ending.begin()
    ending.refuse_daemon_threads()
    are_stopped = entry().ipufeed_stop_all(EXIT_GRACE_NS) == 0
    have_returned = ending.wait_for_calls(EXIT_GRACE_NS / 1e9)
    have_left = ending.wait_for_tensorflow(EXIT_GRACE_NS / 1e9, FUNCTION_GRACE_S)
    # A long compilation, or a function that does not end.
    if not (are_stopped and have_returned and have_left):
        entry().ipufeed_leave_statics()


def at_exit(function: Callable[[], object]) -> None:
    """Registers `function` for the end of this process, but not of its forks.

    A forked child inherits what its parent has registered, but none of its threads.
    """
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:
            function()

    atexit.register(call)


def is_loaded() -> bool:
    """Whether load() has succeeded in this process."""
    return load.cache_info().currsize > 0


def _checked(
    name: str, function: CFunction, bits: dict[int, int]
) -> Callable[..., int]:
    """Returns a C function that refuses numbers which ctypes would truncate.

    An argument type's `from_param` is not used: ctypes raises ArgumentError for whatever
    that raises, which may be the KeyboardInterrupt of a signal's handler.

    `bits` are those of each integer argument, by position.
    """

    def call(*arguments: object) -> int:
        values = list(arguments)
        for position, size in bits.items():
            number = operator.index(cast(SupportsIndex, values[position]))
            most = 1 << (size - 1)
            if not -most <= number < most:
                raise OverflowError(
                    f"argument {position} of {name} must be in "
                    f"[-2**{size - 1}, 2**{size - 1}), got {number}."
                )
            values[position] = number
        return cast(int, function(*values))

    call.argtypes = function.argtypes  # type: ignore[attr-defined]
    return call


def _raise_last_error() -> NoReturn:
    """Raises the error of this thread's last call."""
    import tensorflow as tf

    message = ctypes.create_string_buffer(_MOST_MESSAGE)
    code = entry().ipufeed_last_error(message, _MOST_MESSAGE)
    kind = tf.compat.v1.errors.exception_type_from_error_code(code)
    raise kind(None, None, message.value.decode(errors="replace"))


def _fails_with(failed: int) -> Callable[..., int]:
    """Returns an errcheck function: raises if a result is the error value."""

    def check(result: int, *_: object) -> int:
        if result == failed:
            _raise_last_error()
        return result

    return check


@functools.cache
def entry() -> ctypes.CDLL:
    """Returns the C entry points of the library, documented in ipufeed/cc/capi.

    Each raises the TensorFlow error of its failure (ipufeed/cc/capi/api.h),
    OverflowError for a number outside the argument's range, and TypeError for what is
    not an integer.
    """
    load()
    library = ctypes.CDLL(str(find_library()))
    checks: dict[type, Callable[..., int]] = {
        INT64: _fails_with(-(2**63)),
        INT32: _fails_with(-(2**31)),
    }
    for name, arguments, result in ENTRY_POINTS:
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
        function.errcheck = checks[result]
        bits = {
            position: 8 * ctypes.sizeof(kind)
            for position, kind in enumerate(arguments)
            if kind in (INT64, INT32)
        }
        if bits:
            setattr(library, name, _checked(name, function, bits))
    return library


@functools.cache
def find_library() -> Path:
    """Returns the library next to this file or, in a checkout, the installed one.

    A checkout that was installed with `pip install .` has its Python files in the
    working directory and its library elsewhere; `python -m ipufeed.benchmark` run there
    imports the first and must still find the second.
    """
    here = Path(__file__).resolve().parent
    path = here / LIBRARY
    if not path.exists():
        installed = _installed_library()
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


def _installed_library() -> Path | None:
    for folder in sys.path:
        for distribution in importlib.metadata.distributions(
            name="ipufeed", path=[folder]
        ):
            path = Path(str(distribution.locate_file(f"ipufeed/{LIBRARY}")))
            if path.exists():
                return path.resolve()
    return None


def build_info(path: Path) -> dict[str, str]:
    """Reads what setup.py wrote into the library: versions, sources, sanitizer.

    It is read from the file, without loading it: a library that was built against another
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
    """Returns the hash of the native sources, as setup.py computes it."""
    digest = hashlib.sha256()
    paths = [
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith((".cc", ".h"))
    ]
    # In the order of setup.py, which sorts paths by their parts.
    for path in sorted(paths, key=lambda path: path.split("/")):
        name = path[len(str(folder)) + 1 :]
        with open(path, "rb") as file:
            digest.update(name.encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()


def check_version(built: str, installed: str) -> None:
    """Refuses another minor version: TensorFlow's C++ interface differs there."""
    if built.split(".")[:2] != installed.split(".")[:2]:
        raise LibraryVersionError(
            f"ipufeed's native library was built against TensorFlow {built}, but "
            f"{installed} is installed. Rebuild it with `pip install --force-reinstall "
            f'--no-deps .`, or go back with `pip install "tensorflow=={built}"`.'
        )


def _check_loaded_once(path: Path) -> None:
    """Refuses a second copy: registering its ops again aborts the process.

    TensorFlow's registry of ops shows that as well. Its first lookup takes 20 ms: it
    registers all ops of TensorFlow, which loading the library then does again.
    """
    others = _loaded_libraries() - {str(path)}
    if others:
        raise LibraryLoadedTwiceError(
            f"this process has loaded ipufeed's native library from "
            f"{', '.join(sorted(others))} and cannot load {path} as well. "
            "Start a new process, with one ipufeed on sys.path."
        )


def _loaded_libraries() -> set[str]:
    """Returns the paths of the library's copies; of one since deleted, with that word."""
    maps = Path("/proc/self/maps").read_bytes()
    if LIBRARY.encode() not in maps:
        return set()
    copies = re.compile(rf"/.*/{re.escape(LIBRARY)}(?: \(deleted\))?$", re.MULTILINE)
    return set(copies.findall(maps.decode(errors="replace")))


def _check_not_started() -> None:
    """Refuses a late import: TensorFlow lists its devices only at its first op."""
    from tensorflow.python.eager import context

    started = context._context is not None and context._context._context_handle
    if started:
        raise TensorFlowStartedError(
            "TensorFlow has already run an op or listed its devices in this process, and "
            "can take up no new ones. Put `import ipufeed` before the first use of "
            "TensorFlow (before `tf.constant`, `tf.data`, `tf.config.list_*`), or restart "
            "the notebook's kernel and import it first."
        )


def _explain_load_error(path: Path, info: dict[str, str], error: str) -> str:
    """Returns the loader's message with a remedy."""
    if info["sanitizer"]:
        return (
            f"{path} was built with IPUFEED_SANITIZE={info['sanitizer']} and needs the "
            "sanitizer in the process from the start: set LD_PRELOAD to the output of "
            f"`g++ -print-file-name={info['sanitizer_library']}`. Its message: {error}"
        )
    return f"TensorFlow cannot load {path}: {error}. {REBUILD}"
