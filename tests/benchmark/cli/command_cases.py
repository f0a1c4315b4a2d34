"""Calls of `python -m ipufeed.benchmark` as a user makes them, for the tests of a module.

    case: files + arguments --a process in a folder of its own--> exit code, stdout, stderr

All cases of a module run before its first test, two at a time, since each of them starts
TensorFlow; the tests then look at what came of them. The dataset files are written as
users write them, and know nothing of ipufeed.
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import children
from helpers import DEADLOCK_S, module_runs

INTERRUPT_LIMIT_S = 20.0  # after Ctrl-C; the generators of the files sleep 30 s
READY = "ready for ctrl-c"
# The beginning of files that register what runs at the exit.
EXIT_FILE = """
    import atexit, pathlib, time
    atexit.register(lambda: pathlib.Path("goodbye").touch())
"""


@dataclasses.dataclass
class Case:
    """What a process is given; `interrupt` is sent when the file says READY."""

    arguments: list
    files: dict
    interrupt: signal.Signals | None


@dataclasses.dataclass
class Done:
    """What came of it."""

    code: int
    stdout: str
    stderr: str
    folder: pathlib.Path
    seconds_after_interrupt: float = 0.0

    @property
    def result(self):
        """The JSON on stdout, which must be strict and alone."""
        return json.loads(self.stdout, parse_constant=refuse)

    @property
    def words(self):
        """stderr, however its lines were wrapped."""
        return " ".join(self.stderr.split())

    @property
    def elements(self):
        return sum(epoch["elements_processed"] for epoch in self.result["epochs"])

    @property
    def warnings(self):
        return {warning["code"] for warning in self.result["warnings"]}


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def execute(case, folder):
    (folder / "tmp").mkdir(parents=True)
    for name, text in case.files.items():
        (folder / name).write_text(text)
    process = children.Popen(
        [sys.executable, "-m", "ipufeed.benchmark", *case.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"},
            "TMPDIR": str(folder / "tmp"),
            # Python would keep there what it compiles of AutoGraph's files.
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    watchdog = threading.Timer(DEADLOCK_S, process.kill)
    watchdog.start()
    with process:
        stderr, interrupted = "", 0.0
        if case.interrupt is not None:
            for line in process.stderr:
                stderr += line
                if READY in line:
                    interrupted = time.monotonic()
                    process.send_signal(case.interrupt)
                    break
        stdout, rest = process.communicate()
        ended = time.monotonic()
    watchdog.cancel()
    return Done(process.returncode, stdout, stderr + rest, folder, ended - interrupted)


def command_cases():
    """The function that adds a case to a module, and the module's fixture `runs`."""
    cases = {}

    def case(name, text, arguments="dataset.py", *, interrupt=None, **files):
        """Adds a case; `text` becomes dataset.py, after its imports, unless it is None."""
        if text is not None:
            files["dataset.py"] = "import tensorflow as tf\n" + textwrap.dedent(text)
        cases[name] = Case(arguments.split(), files, interrupt)

    return case, module_runs(lambda name, folder: execute(cases[name], folder), cases)
