"""The programs of examples/ipu, and how they are run."""

import os
import pathlib
import subprocess
import sys

import children
from helpers import DEADLOCK_S

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "ipu"
FILES = {path.stem: path for path in sorted(PROGRAMS.glob("*/*.py"))}


def execute(name, folder):
    folder.mkdir()
    return children.run(
        [sys.executable, "-m", "ipufeed.run", str(FILES[name])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "TF_POPLAR_FLAGS": ""},
    )
