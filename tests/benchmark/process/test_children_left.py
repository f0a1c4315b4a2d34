"""The processes and threads that a loader leaves are named, and end no later."""

import subprocess
import sys
import types

import children
import pytest
from helpers import DEADLOCK_S

from ipufeed.benchmark.process import interrupts


def child(pid, daemon):
    return types.SimpleNamespace(pid=pid, daemon=daemon)


def test_those_that_are_waited_for_are_named(monkeypatch, capsys):
    """Daemons are ended by Python."""
    children = [child(7, False), child(8, True), child(9, False)]
    multiprocessing = types.SimpleNamespace(active_children=lambda: children)
    monkeypatch.setitem(sys.modules, "multiprocessing", multiprocessing)

    interrupts._name_children()
    found = " ".join(capsys.readouterr().err.split())
    assert "waiting for 2 process(es) that the loader has started" in found
    assert ": 7, 9. Ctrl-C ends the wait" in found


def test_without_any_nothing_is_printed(monkeypatch, capsys):
    multiprocessing = types.SimpleNamespace(active_children=list)
    for module in (multiprocessing, None):
        monkeypatch.setitem(sys.modules, "multiprocessing", module)
        interrupts._name_children()
    assert capsys.readouterr().err == ""


LEFT = {
    "a thread": "threading.Thread(target=time.sleep, args=(9000,), name='w').start()",
    "a busy executor": """
executor = concurrent.futures.ThreadPoolExecutor(1, 'w')
starter = threading.Thread(target=lambda: executor.submit(time.sleep, 9000), daemon=True)
starter.start(); starter.join()
""",
}


def run(text):
    """Runs a program whose end is that of the command."""
    program = (
        "import atexit, concurrent.futures, threading, time\n"
        "from ipufeed.benchmark.process import interrupts\n"
        "interrupts.THREADS_GRACE_S = 1.0\n"
        f"atexit.register(print, 'closed')\n{text}\ninterrupts.leave(3)"
    )
    return children.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEADLOCK_S,
    )


@pytest.mark.process
@pytest.mark.parametrize("left", LEFT)
def test_the_process_ends_without_threads_that_do_not(left):
    """With its own exit code; what the file has registered for the end is done."""
    done = run(LEFT[left])

    assert done.returncode == 3
    assert done.stdout == "closed\n"
    assert "ends without 1 thread(s) that the loader has started" in done.stderr
    assert ": w" in done.stderr


@pytest.mark.process
def test_threads_that_end_are_waited_for():
    """Such as an idle executor's, and one that writes its last file."""
    done = run(
        "executor = concurrent.futures.ThreadPoolExecutor(1)\n"
        "executor.submit(len, [])\n"
        "threading.Timer(0.3, print, ('written',)).start()"
    )

    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "written\nclosed\n"
