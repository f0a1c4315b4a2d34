"""A child that is forked (tests/support/children.py) is what a new interpreter is."""

import json
import os
import signal
import subprocess
import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = pytest.mark.process


PROGRAM = """
import json, os, signal, sys, threading
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path,
    "folder": os.getcwd(),
    "variables": {name: os.environ.get(name) for name in ("GIVEN", "TAKEN", "PATH")},
    "name": __name__,
    "file": globals().get("__file__"),
    "main": sys.modules["__main__"].__dict__ is globals(),
    "threads": len(os.listdir("/proc/self/task")),
    "interrupts": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "streams": [sys.stdout.fileno(), sys.stderr.fileno(), sys.stdin.read()],
    "loaded": "ipufeed" in sys.modules,
}))
"""


def both(*arguments, **options):
    """What a forked and a new process have done."""
    given = {"capture_output": True, "text": True, "timeout": DEADLOCK_S, **options}
    command = [sys.executable, *map(str, arguments)]
    return children.run(command, **given), subprocess.run(command, check=False, **given)


@pytest.fixture
def programs(tmp_path):
    """The program as a script, as a module and as code."""
    (tmp_path / "program.py").write_text(PROGRAM)
    return {
        "script": ["program.py"],
        "module": ["-m", "program"],
        "code": ["-c", PROGRAM],
    }


@pytest.mark.parametrize("kind", ["script", "module", "code"])
def test_it_finds_what_a_new_process_finds(programs, tmp_path, kind, monkeypatch):
    """Arguments, paths, variables, streams and handlers; and one thread."""
    monkeypatch.setenv("TAKEN", "from the test")
    environment = {**os.environ, "GIVEN": "by the call"}
    del environment["TAKEN"]
    environment.pop("PYTHONSAFEPATH", None)
    forked, new = both(
        *programs[kind], "a", "b c", cwd=tmp_path, env=environment, input="typed"
    )

    assert forked.returncode == new.returncode == 0, forked.stderr + new.stderr
    found = json.loads(forked.stdout)
    assert found == json.loads(new.stdout)
    assert found["threads"] == 1
    assert not found["loaded"]


@pytest.mark.parametrize("folders", [None, [], [ROOT], [ROOT, ROOT / "tests"]])
def test_it_finds_modules_where_a_new_process_does(folders, monkeypatch):
    """PYTHONPATH may name the folders of the project, or none."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    environment = dict(os.environ)
    if folders is not None:
        environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    code = "import sys; print(sys.path, 'tensorflow' in sys.modules)"
    forked, new = both("-c", code, env=environment)

    assert forked.stdout == new.stdout.replace("False", "True"), forked.stderr


def test_a_folder_that_may_hide_tensorflow_starts_an_interpreter(tmp_path):
    """The fork server has imported the real one."""
    (tmp_path / "tensorflow.py").write_text("print('hidden')")
    done = children.run(
        [sys.executable, "-c", "import tensorflow"],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )

    assert done.stdout == "hidden\n", done.stderr


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('no data')", 1),
        ("import os; os._exit(9)", 9),
        ("1 / 0", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
        ("import atexit; atexit.register(print, 'at exit')", 0),
    ],
)
def test_it_ends_as_a_new_process_ends(code, returncode):
    """With the same code, output and traceback."""
    forked, new = both("-c", code)

    assert forked.returncode == new.returncode == returncode
    assert forked.stdout == new.stdout
    assert forked.stderr == new.stderr


def test_it_is_the_child_of_the_test_and_can_be_signalled():
    process = children.Popen(
        [
            sys.executable,
            "-c",
            "import os, time; print(os.getppid(), flush=True); time.sleep(1000)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert int(process.stdout.readline()) == os.getpid()
        assert process.poll() is None
        process.kill()
        assert process.wait(DEADLOCK_S) == -signal.SIGKILL


def test_the_interpreters_flags_are_those_of_a_new_process():
    """What a fork cannot give starts an interpreter."""
    done = children.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-c",
            "import sys; print(sys.flags.dev_mode)",
        ],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
    )

    assert (done.returncode, done.stdout) == (0, "False\n")
    assert "import time:" in done.stderr
