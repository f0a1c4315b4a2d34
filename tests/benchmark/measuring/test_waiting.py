"""What the count of waiting threads promises: threads that queue for a CPU are seen."""

import hashlib
import os
import threading
import time

import pytest

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.measuring import cpu_wait
from ipufeed.benchmark.measuring.cpu_wait import RunQueueDelay
from ipufeed.benchmark.measuring.run import Progress


def waits_during(seconds):
    """Returns the CPU waits of this process during `seconds`."""
    waits = RunQueueDelay()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        waits(Progress(elements=1, bytes=8, epochs=0, first_ns=1))
        time.sleep(0.02)
    return waits.threads


@pytest.fixture
def one_cpu():
    """All threads that begin in the test share a CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


def test_threads_that_share_a_cpu_wait_for_it(one_cpu):
    """Three that never stop: at any moment two of them wait, or more next to other load."""
    stop, data = threading.Event(), bytes(1 << 22)

    def burn():
        while not stop.is_set():
            # Without the interpreter's lock: they wait for the CPU, not for it.
            hashlib.sha256(data).digest()

    threads = [threading.Thread(target=burn) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        found = waits_during(1.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert found > 1


def test_before_the_first_element_nothing_counts():
    """Start-up has its own work."""
    waits = RunQueueDelay()
    for _ in range(3):
        waits(Progress(elements=0, bytes=0, epochs=0, first_ns=0))
        time.sleep(0.11)

    assert waits.threads is None


def test_a_kernel_that_does_not_count_gives_none(monkeypatch, tmp_path):
    """Not 0: it is unknown."""
    monkeypatch.setattr(cpu_wait, "TASKS", str(tmp_path / "nothing"))

    assert waits_during(0.4) is None


def test_the_progress_is_given_on_request():
    """Each time, whether it was looked at or not."""
    seen = []
    waits = RunQueueDelay(seen.append)
    for number in range(5):
        waits(Progress(elements=number, bytes=0, epochs=0, first_ns=0))

    assert [each.elements for each in seen] == [0, 1, 2, 3, 4]


def test_a_result_has_it():
    """Threads on average, of a run that is long enough to look twice."""
    import tensorflow as tf

    result = measure(tf.data.Dataset.range(1).repeat(), Settings(seconds=0.6))
    short = measure(tf.data.Dataset.range(5))

    assert result.resources["threads_waiting"] >= 0
    assert short.resources["threads_waiting"] is None
