"""Builds the wheel and tries it: `python tools/build_wheel.py [--python 3.N ...]`.

    clone --build--> wheel --auditwheel--> py3-none-manylinux wheel
                       each Python: fresh environment, main job, tests/queues

The library is not a Python module, so that one wheel serves each Python. TensorFlow's own
libraries are not put into it: they are there when it is loaded, by name. What is tried is
the installed package alone: the tests run from a folder that has no sources of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
TENSORFLOWS = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
LIBRARY = "ipufeed/libipufeed.so"
TESTS = "tests/queues"
# What compiles C++ needs the sources.
MARKS = "not native and not soak and not measured"


def main() -> int:
    """Prints the outcome for each Python; returns 1 if one failed or is not there."""
    parser = argparse.ArgumentParser(prog="python tools/build_wheel.py")
    parser.add_argument("--to", type=Path, help="where the wheel is to be kept")
    parser.add_argument(
        "--python",
        nargs="+",
        choices=PYTHONS,
        metavar="3.N",
        help=f"of {', '.join(PYTHONS)}; by default all that this machine has",
    )
    options = parser.parse_args()
    found = {version: interpreter(version) for version in options.python or PYTHONS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = built(folder)
        print(f"built: {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB)", flush=True)
        if options.to is not None:
            options.to.mkdir(parents=True, exist_ok=True)
            shutil.copy(wheel, options.to)
        results = {
            version: "not on this machine" if python is None else tried(python, wheel)
            for version, python in found.items()
        }
    for version, result in results.items():
        print(f"Python {version}: {result}")
    lacks = [version for version, python in found.items() if python is None]
    works = [result for result in results.values() if result.startswith("works")]
    complete = len(works) + len(lacks) == len(results)
    return int(not works or not complete or bool(options.python and lacks))


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Runs a command and returns its standard output; what it printed, if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr, flush=True)
        raise subprocess.CalledProcessError(done.returncode, done.args)
    return done.stdout


def interpreter(version: str) -> str | None:
    """Returns the Python of this version: of the path, or one that pyenv has installed."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}")]
    candidates += map(str, sorted(folder.glob(f"{version}.*/bin/python{version}")))
    for each in filter(None, candidates):
        # pyenv's own command is there for versions that are not switched on, too.
        if subprocess.run([each, "--version"], capture_output=True).returncode == 0:
            return each
    return None


def built(folder: Path) -> Path:
    """Returns the wheel of what is committed, repaired and checked."""
    clone = folder / "clone"
    run("git", "clone", "--quiet", ROOT, clone, cwd=folder)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    run(*build, "--outdir", folder / "raw", cwd=clone)
    (raw,) = (folder / "raw").glob("*.whl")
    excluded = [word for name in TENSORFLOWS for word in ("--exclude", name)]
    repair = [sys.executable, "-m", "auditwheel", "repair", *excluded]
    run(*repair, "--wheel-dir", folder / "dist", raw, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    if "-py3-none-manylinux" not in wheel.name:
        raise SystemExit(
            f"The wheel must be for any Python of Linux, got {wheel.name}."
        )
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if ".so" in name]
        dynamic = archive.read(LIBRARY)
    if libraries != [LIBRARY]:
        raise SystemExit(f"The wheel must hold {LIBRARY} alone, got {libraries}.")
    if str(folder).encode() in dynamic:
        raise SystemExit(f"{LIBRARY} holds a path of the machine that built it.")
    return wheel


def tried(python: str, wheel: Path) -> str:
    """Runs the main job and the tests in a fresh environment of this Python.

    Returns:
        A line with the rate and the tests' summary, or with the failure.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {"PYTHONPATH": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        try:
            run(python, "-m", "venv", folder / "venv", cwd=folder, **environment)
            own = folder / "venv/bin/python"
            install = [own, "-m", "pip", "install", "--quiet", f"{wheel}[test]"]
            run(*install, cwd=folder, **environment)
            for part in ("tests", "benchmarks", "examples"):
                shutil.copytree(ROOT / part, folder / part)
            shutil.copy(ROOT / "pyproject.toml", folder)
            text = run(own, "-m", "ipufeed.benchmark", cwd=folder, **environment)
            rate = json.loads(text)["steady"]["samples_per_second"]
            # As a program, so that this folder is not on the path.
            pytest = [folder / "venv/bin/pytest", "-q", "-n", "0", "-m", MARKS, TESTS]
            text = run(*pytest, cwd=folder, **environment)
        except subprocess.CalledProcessError as error:
            return f"failed: {error}"
    return f"works: {rate:.0f} samples/s, {text.splitlines()[-1]}"


if __name__ == "__main__":
    sys.exit(main())
