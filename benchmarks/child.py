"""Starts a module of this package in a new process, wherever that process runs.

asv imports the package from the working copy and ipufeed from where a commit is installed.
The working copy on the path of a child would bring its own ipufeed, which is another one.
"""

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import importlib.util, runpy, sys
folder, module, *rest = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "benchmarks", folder + "/__init__.py", submodule_search_locations=[folder]
)
sys.modules["benchmarks"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.argv = [module, *rest]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def command(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs `benchmarks.<module>` with these arguments."""
    folder = str(Path(__file__).parent)
    return [sys.executable, "-c", _PROGRAM, folder, f"benchmarks.{module}", *arguments]


def output(module: str, *arguments: str, timeout_s: float | None = None) -> str:
    """Runs `benchmarks.<module>` and returns what it prints.

    Raises:
        subprocess.CalledProcessError: The process failed.
        subprocess.TimeoutExpired: It has not ended within `timeout_s` seconds.
    """
    return subprocess.run(
        command(module, *arguments),
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    ).stdout
