"""python -m ipufeed.run program.py [arguments]: runs a program written for an IPU.

`from tensorflow.python import ipu` works in it, and gives the simulated one.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

BAD_INPUT = 2


def main(arguments: list[str] | None = None) -> int:
    """Runs the program as `python program.py` would; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ipufeed.run",
        description="Runs a program that was written for TensorFlow on IPUs, unchanged: "
        "tensorflow.python.ipu is the simulated device. It gets the arguments after its "
        "name, and its exit code is this one's.",
        allow_abbrev=False,
    )
    parser.add_argument("program", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the program")
    options = parser.parse_args(arguments)
    path = Path(options.program)
    if not path.is_file():
        what = "is no file" if path.exists() else "is not there"
        print(f"ipufeed.run: {path} {what}: give a Python file.", file=sys.stderr)
        return BAD_INPUT
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # not the chatter about GPUs
    from ipufeed import _native, compat

    _native.load()
    compat.install()
    sys.argv = [str(path), *options.arguments]
    sys.path.insert(0, str(path.resolve().parent))
    runpy.run_path(str(path), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
