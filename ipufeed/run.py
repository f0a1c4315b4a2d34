"""python -m ipufeed.run program.py [arguments]: runs a program written for IPUs.

    program.py --as __main__--> from tensorflow.python import ipu --> the simulated IPU

The program runs as with `python program.py [arguments]`, or `python -m module [arguments]`:
its name, its arguments, its folder first on sys.path, its exit code, its tracebacks.
Its child processes find the same modules.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import runpy
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ipufeed import child_processes
from ipufeed.exit_codes import BAD_INPUT
from ipufeed.render.terminal import HelpFormatter, Parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the program.

    Args:
        arguments: The program and its arguments. Default: those of the command line.

    Returns:
        0, or 2 if the program is not a file. Errors of the program propagate to the
        interpreter, with the program's own frames only.
    """
    parser = Parser(
        prog="python -m ipufeed.run",
        description="Runs a program that was written for TensorFlow on IPUs, unchanged: "
        "tensorflow.python.ipu is the simulated device. It gets the arguments after its "
        "name, and its exit code is this one's.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("program", help="a Python file; with -m, a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the program")
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="run a module, or the __main__ of a package, as `python -m` does",
    )
    parser.add_argument(
        "--references",
        metavar="FILE",
        help="a Python file that is run first, to register TensorFlow code for the "
        "libraries of precompiled_user_op (ipufeed.ops.references)",
    )
    options = parser.parse_args(arguments)
    files = [] if options.is_module else [options.program]
    if options.references:
        files.append(options.references)
    for path in map(Path, files):
        if not path.is_file():
            what = "is not a file" if path.exists() else "is not there"
            print(f"ipufeed.run: {path} {what}: give a Python file.", file=sys.stderr)
            return BAD_INPUT
    _prepare()
    child_processes.inherit()
    if options.references:
        runpy.run_path(options.references)
    start = run_module if options.is_module else run
    start(options.program, options.arguments)
    return 0


def _prepare() -> None:
    """Prepares the process when the program imports TensorFlow, ipufeed or popdist.

    So environment variables act that the program sets before it, as with Python alone:
    TF_USE_LEGACY_KERAS, TF_CPP_MIN_LOG_LEVEL.
    """
    if "tensorflow" in sys.modules:
        from ipufeed import _quiet_import

        with _quiet_import.quiet_stderr("1"):
            child_processes.prepare()
        return
    from ipufeed.child_processes import sitecustomize

    sitecustomize.install(runs_program=True)


def run(program: str, arguments: list[str]) -> None:
    """Runs a file as this process's `__main__`.

    Its threads and atexit functions may outlast this call, so `__main__` is not restored.
    """
    path = os.path.abspath(program)
    sys.argv = [program, *arguments]
    _put_first_on_path(os.path.dirname(os.path.realpath(path)))
    module = _new_main(__file__=path, __cached__=None)
    with _own_frames():
        # Bytes: compile() decodes them with the encoding that the file declares.
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)


def run_module(name: str, arguments: list[str]) -> None:
    """Runs a module, or the `__main__` of a package, as this process's `__main__`.

    Raises:
        SystemExit: It is not there, or is a package without `__main__`; with the exit code
            of `python -m`.
    """
    sys.argv = ["-m", *arguments]  # while the module is searched for, as in Python
    working = os.getcwd()
    if sys.path[:1] != [working] and not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, working)
    module = _new_main()
    private: Any = runpy  # what `python -m` itself calls
    with _own_frames():
        try:
            _, spec, code = private._get_module_details(name, private._Error)
        except private._Error as error:
            sys.exit(f"ipufeed.run: {error}")
        sys.argv[0] = spec.origin
        module.__dict__.update(
            __file__=spec.origin,
            __cached__=spec.cached,
            __loader__=spec.loader,
            __package__=spec.parent,
            __spec__=spec,
        )
        exec(code, module.__dict__)


def _new_main(**attributes: object) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, **attributes)
    sys.modules["__main__"] = module
    return module


@contextlib.contextmanager
def _own_frames() -> Iterator[None]:
    """Leaves the frames of this file and of Python's own runner out of an error."""
    try:
        yield
    except SystemExit:
        raise
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and _is_runner(frames.tb_frame.f_code.co_filename):
            frames = frames.tb_next
        _print_frames(frames)
        raise


def _is_runner(path: str) -> bool:
    return path in (__file__, runpy.__file__) or path.startswith(
        ("<frozen runpy", "<frozen importlib")
    )


def _put_first_on_path(folder: str) -> None:
    """Puts a program's folder first on sys.path, in place of the working directory.

    That moves to the end if ipufeed was imported from it: a checkout, not installed.
    """
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    working = os.getcwd()
    if sys.path[:1] in ([working], [""]):
        del sys.path[0]
        if os.path.samefile(working, home):
            sys.path.append(working)
    sys.path.insert(0, folder)


def _print_frames(frames: TracebackType | None) -> None:
    """Makes the interpreter print the exception that ends it with these frames only.

    It sets sys.excepthook instead of printing: the interpreter also ends by SIGINT after
    a Ctrl-C, and the program may have set a hook of its own.
    """
    show = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, own: TracebackType | None
    ) -> None:
        del own
        show(kind, error.with_traceback(frames), frames)

    sys.excepthook = excepthook


if __name__ == "__main__":
    sys.exit(main())
