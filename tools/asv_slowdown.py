"""Whether `asv continuous` sees a slow-down of 20 %: `python tools/asv_slowdown.py`.

    clone of HEAD --+-- commit without changes           must be green
                    +-- commit with 20 % busy work       must be red
                        after each run of the measuring op

The commits change Python alone. So nothing is compiled: asv's environment gets a commit's
Python, this environment's packages, and the library that is installed here, which must fit
the sources of HEAD. It takes some minutes; a busy machine may make either verdict wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = r"suite\.bench_iterate\.Through\.time_(1000_medium|20_large)$"
RED, GREEN = "red", "green"
SLOWER = '''

_load = load


class _Slower:
    """The library with busy work after each run of the measuring op."""

    def __init__(self, library):
        self._library = library

    def __getattr__(self, name):
        import time

        found = getattr(self._library, name)
        if name != "ipufeed_measure_dataset":
            return found

        def slower(*arguments, **keywords):
            start = time.perf_counter()
            result = found(*arguments, **keywords)
            end = time.perf_counter() + {fraction} * (time.perf_counter() - start)
            while time.perf_counter() < end:
                pass
            return result

        return slower


def load():
    return _Slower(_load())
'''


def main() -> int:
    """Prints both verdicts; 1 if one of them is wrong."""
    parser = argparse.ArgumentParser(prog="python tools/asv_slowdown.py")
    parser.add_argument("--percent", type=float, default=20, help="of the slow-down")
    parser.add_argument("--rounds", type=int, default=4, help="of each benchmark")
    parser.add_argument("--install", nargs=3, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.install:
        install(*options.install)
        return 0
    with tempfile.TemporaryDirectory(prefix="ipufeed-asv-") as name:
        folder = Path(name)
        base, same, slower = commits(folder / "clone", options.percent / 100)
        config = configured(folder)
        asv(folder, config, "machine", "--yes")
        asked = (("the same code", same, GREEN), ("slower code", slower, RED))
        verdicts = [
            (what, wanted, continuous(folder, config, options.rounds, base, new))
            for what, new, wanted in asked
        ]
    for what, wanted, found in verdicts:
        print(f"{what}: {found}" + ("" if found == wanted else f", must be {wanted}"))
    return int(any(found != wanted for _, wanted, found in verdicts))


def git(clone: Path, *words: str) -> str:
    """Runs git in the clone; returns what it printed."""
    names = ("-c", "user.name=asv", "-c", "user.email=asv@localhost")
    command = ["git", *names, *words]
    done = subprocess.run(
        command, cwd=clone, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def commits(clone: Path, fraction: float) -> tuple[str, str, str]:
    """Makes a clone; returns HEAD, a commit of the same files, one slower by `fraction`."""
    git(ROOT, "clone", "--quiet", str(ROOT), str(clone))
    git(clone, "checkout", "--quiet", "-B", "main")
    base = git(clone, "rev-parse", "HEAD")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "the same")
    same = git(clone, "rev-parse", "HEAD")
    with (clone / "ipufeed" / "_native.py").open("a", encoding="utf-8") as file:
        file.write(SLOWER.replace("{fraction}", str(fraction)))
    git(clone, "commit", "--quiet", "--all", "-m", "slower")
    return base, same, git(clone, "rev-parse", "HEAD")


def configured(folder: Path) -> Path:
    """Writes a configuration of asv that installs without a build.

    It stands outside of the clone: next to a pyproject.toml asv would install all that a
    build needs.
    """
    found = importlib.util.find_spec("ipufeed")
    if found is None or not found.submodule_search_locations:
        raise SystemExit(
            "ipufeed must be installed in the environment that runs tools/asv_slowdown.py: "
            "pip install -e ."
        )
    library = Path(found.submodule_search_locations[0]) / "libipufeed.so"
    tool = f'"{sys.executable}" "{Path(__file__).resolve()}"'
    config = {
        "version": 1,
        "project": "ipufeed",
        "repo": str(folder / "clone"),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "pythons": [f"{sys.version_info.major}.{sys.version_info.minor}"],
        "benchmark_dir": str(ROOT / "benchmarks"),
        "env_dir": str(folder / "env"),
        "results_dir": str(folder / "results"),
        "html_dir": str(folder / "html"),
        "build_command": [],
        "install_command": [f'{tool} --install {{env_dir}} {{build_dir}} "{library}"'],
        "uninstall_command": [],
        "install_timeout": 600,
        "default_benchmark_timeout": 600,
    }
    path = folder / "asv.conf.json"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    return path


def install(env: Path, build: Path, library: Path) -> None:
    """Makes the Python of `build`, and the packages of this environment, those of `env`."""
    shutil.copy(library, build / "ipufeed")
    (packages,) = env.glob("lib/python*/site-packages")
    paths = [str(build), sysconfig.get_path("purelib")]
    (packages / "ipufeed-commit.pth").write_text("\n".join(paths) + "\n")


def asv(folder: Path, config: Path, command: str, *words: str) -> str:
    """Runs a command of asv; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "asv", command, "--config", str(config), *words],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    return done.stdout


def continuous(folder: Path, config: Path, rounds: int, base: str, new: str) -> str:
    """Returns the verdict of `asv continuous` on two commits, run alternately."""
    often = ["--interleave-rounds", "-a", f"rounds={rounds}"]
    return verdict(
        asv(folder, config, "continuous", *often, "--bench", BENCHMARKS, base, new)
    )


def verdict(text: str) -> str:
    """Returns RED, GREEN or why neither, from what `asv continuous` printed.

    Its exit code is 1 for a slower commit and for one that did not run.
    """
    if re.search(r"^\S*PERFORMANCE DECREASED", text, re.MULTILINE):
        return RED
    if "failed" in text.lower():
        return "failed"
    if "BENCHMARKS NOT SIGNIFICANTLY CHANGED" in text:
        return GREEN
    return "neither slower nor the same"


if __name__ == "__main__":
    sys.exit(main())
