"""python -m ipufeed.run program.py [arguments]: runs a program written for IPUs.

    program.py --as __main__--> from tensorflow.python import ipu --> the simulated IPU

The program runs as with `python program.py [arguments]`: its
name, its arguments, its folder first on sys.path, its exit code, its tracebacks.
"""

from __future__ import annotations

import argparse
import io
import os
import runpy
import sys
import types
from pathlib import Path
from types import TracebackType

from ipufeed.errors import frames_from
from ipufeed.exit_codes import BAD_INPUT
from ipufeed.render.terminal import HelpFormatter


def main(arguments: list[str] | None = None) -> int:
    """Runs the program.

    Args:
        arguments: The program and its arguments. Default: those of the command line.

    Returns:
        0, or 2 if the program is not a file. Errors of the program propagate to the
        interpreter, with the program's own frames only.
    """
    parser = argparse.ArgumentParser(
        prog="python -m ipufeed.run",
        description="Runs a program that was written for TensorFlow on IPUs, unchanged: "
        "tensorflow.python.ipu is the simulated device. It gets the arguments after its "
        "name, and its exit code is this one's.",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("program", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the program")
    parser.add_argument(
        "--references",
        metavar="FILE",
        help="a Python file that is run first, to register TensorFlow code for the "
        "libraries of precompiled_user_op (ipufeed.ops.references)",
    )
    options = parser.parse_args(arguments)
    files = [options.program]
    if options.references:
        files.append(options.references)
    for path in map(Path, files):
        if not path.is_file():
            what = "is not a file" if path.exists() else "is not there"
            print(f"ipufeed.run: {path} {what}: give a Python file.", file=sys.stderr)
            return BAD_INPUT
    _prepare()
    if options.references:
        runpy.run_path(options.references)
    run(options.program, options.arguments)
    return 0


def _prepare() -> None:
    from ipufeed import _quiet_import

    with _quiet_import.quiet_stderr("1"):
        from ipufeed import _native, compat

        _native.load()
        compat.install()
        # TensorFlow logs at its first listing of the devices that GPUs are missing. Listing
        # them starts nothing that the program may still configure.
        import tensorflow as tf

        tf.config.list_physical_devices()


def run(program: str, arguments: list[str]) -> None:
    """Runs a file as this process's `__main__`.

    Its threads and atexit functions may outlast this call, so `__main__` is not restored.
    """
    path = os.path.abspath(program)
    sys.argv = [program, *arguments]
    _put_first_on_path(os.path.dirname(os.path.realpath(path)))
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __cached__=None, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    try:
        # Bytes: compile() decodes them with the encoding that the file declares.
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        _print_frames(frames_from(error.__traceback__, path))
        raise


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
