"""The processes and threads that a loader leaves are named, and end no later."""

import subprocess
import sys
import time
import types
from pathlib import Path

import children
import pytest
from helpers import DEADLOCK_S

from ipufeed.benchmark.process import leave


def child(pid, daemon):
    calls = []
    return types.SimpleNamespace(
        pid=pid,
        daemon=daemon,
        calls=calls,
        terminate=lambda: calls.append("terminate"),
        kill=lambda: calls.append("kill"),
    )


def test_processes_that_python_waits_for_are_named_and_ended(monkeypatch, capsys):
    """Daemons are ended by Python."""
    children = [child(7, False), child(8, True), child(9, False)]
    multiprocessing = types.SimpleNamespace(active_children=lambda: children)
    monkeypatch.setitem(sys.modules, "multiprocessing", multiprocessing)
    monkeypatch.setattr(leave.time, "sleep", lambda seconds: None)
    ended = []
    monkeypatch.setattr(
        leave.threading,
        "Thread",
        lambda target, args, daemon: types.SimpleNamespace(
            start=lambda: ended.append(target(*args))
        ),
    )

    leave._limit_children()
    found = " ".join(capsys.readouterr().err.split())
    assert "2 process(es) that the loader has started and not ended (7, 9)" in found
    assert "are ended in 5 s" in found
    assert ended == [None]
    assert [each.calls for each in children] == [
        ["terminate", "kill"],
        [],
        ["terminate", "kill"],
    ]


def test_without_any_nothing_is_printed(monkeypatch, capsys):
    multiprocessing = types.SimpleNamespace(active_children=list)
    for module in (multiprocessing, None):
        monkeypatch.setitem(sys.modules, "multiprocessing", module)
        leave._limit_children()
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
        "import atexit, concurrent.futures, multiprocessing, threading, time\n"
        "from ipufeed.benchmark.process import leave\n"
        "leave.LEAVE_GRACE_S, leave.EXIT_GRACE_S = 1.0, 2.0\n"
        f"atexit.register(print, 'closed')\n{text}\nleave.leave(3)"
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
@pytest.mark.parametrize("and_a_thread", [False, True])
def test_the_process_ends_the_processes_that_do_not_end(and_a_thread):
    text = """
fork = multiprocessing.get_context("fork")
fork.Process(target=time.sleep, args=(9000,)).start()
"""
    done = run(text + (LEFT["a thread"] if and_a_thread else ""))

    assert done.returncode == 3
    assert done.stdout == "closed\n"
    assert "1 process(es) that the loader has started and not ended" in " ".join(
        done.stderr.split()
    )


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


@pytest.mark.process
def test_timers_are_stopped_at_the_exit():
    """Python's exit restores the default action of their signals: to end the process."""
    done = run(
        "import signal\n"
        "signal.setitimer(signal.ITIMER_PROF, 1000)\n"
        "atexit.register(lambda: print(signal.getitimer(signal.ITIMER_PROF)))"
    )

    assert (done.returncode, done.stdout) == (3, "(0.0, 0.0)\nclosed\n")


def is_running(process):
    """Whether a process is there that has not ended."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


# A worker that is ended while it waits for a task keeps the lock of the pool's queue. The
# pool starts another one, and its end waits for the lock.
STUCK_POOL = """
import os
pool = multiprocessing.get_context("fork").Pool(1)
pool.apply(len, ([],))
time.sleep(0.5)
(first,) = multiprocessing.active_children()
os.kill(first.pid, 9)
while not (others := set(multiprocessing.active_children()) - {first}):
    time.sleep(0.01)
print(others.pop().pid, flush=True)
"""


# Ctrl-C after two seconds of the exit.
LATE = """
import signal
leave.EXIT_GRACE_S, leave.PATIENCE_S = 9000.0, 0.1
send = threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT))
send.daemon = True; send.start()
"""


@pytest.mark.process
@pytest.mark.parametrize("left", ["", LEFT["a thread"]], ids=["alone", "and a thread"])
@pytest.mark.parametrize("signalled", [False, True])
def test_the_process_ends_without_a_pool_that_does_not(signalled, left):
    """Its exit function waits, in the main thread or in the one that ends the process."""
    done = run(STUCK_POOL + left + (LATE if signalled else ""))

    assert done.returncode == 3
    words = " ".join(done.stderr.split())
    assert ("ends without a function of its exit" in words) == (not signalled)
    worker = done.stdout.split()[0]
    end = time.monotonic() + DEADLOCK_S
    while is_running(worker) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(worker)
