"""The programs of examples/ipu, and how they are run."""

import os
import pathlib
import subprocess
import sys

import children

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = ROOT / "examples" / "ipu"
FILES = {path.stem: path for path in sorted(PROGRAMS.glob("*/*.py"))}
LIMIT_S = 240.0  # for a process; only a hang gets there


def execute(name, folder):
    folder.mkdir()
    return children.run(
        [sys.executable, "-m", "ipufeed.run", str(FILES[name])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "TF_POPLAR_FLAGS": ""},
    )
