"""What a loader raises: the line of the user's code, and what to do."""

import json
import os
import subprocess
import threading

import pytest

from ipufeed.benchmark.loaders import ended_workers
from ipufeed.benchmark.loaders.consume import consume
from ipufeed.benchmark.loaders.consumer import Consumer, Limits
from ipufeed.sources.loaders.failure import LoaderError
from ipufeed.sources.loaders.kinds import as_loader, kind_of


def raised(function):
    try:
        function()
    except Exception as error:
        return LoaderError(error).message
    raise AssertionError("nothing was raised")


def test_the_line_is_that_of_the_users_code():
    """Rather than that of the package that it calls."""
    message = raised(lambda: json.loads("{"))

    assert "test_failures.py:" in message
    assert os.path.join("json", "decoder.py") not in message


def test_a_line_of_the_benchmark_is_not_that_of_the_loader():
    """Nor one of Python's that the benchmark calls."""

    class NotIterable:
        def __iter__(self):
            return 5

    consumer = Consumer(kind_of(NotIterable()).open, Limits())
    consumer.run()

    assert LoaderError(consumer.counts.failure).message == (
        "iter() returned non-iterator of type 'int'"
    )


def test_the_traceback_of_a_worker_has_the_line(monkeypatch):
    """The line that raises it again is that of a package."""
    text = (
        "Caught OSError in worker 0.\nTraceback (most recent call last):\n  ...\nGone."
    )

    def again():
        raise OSError(text)

    monkeypatch.setattr(
        "ipufeed.sources.loaders.failure._PACKAGES", (os.path.dirname(__file__),)
    )
    assert raised(again) == text


@pytest.mark.parametrize("error", [ConnectionResetError, EOFError, FileNotFoundError])
def test_a_worker_that_has_ended_is_a_possible_cause(error):
    """Of what the thread reads from it, if the loader does not see its end first."""
    name = os.path.join("multiprocessing", "connection.py")
    names = {"error": error}
    exec(compile("def read():\n    raise error('cut off')", name, "exec"), names)

    assert raised(names["read"]).endswith(
        "Perhaps a worker process of the loader has ended: run the loader without worker "
        "processes to see why."
    )


def test_a_file_that_is_missing_is_not_a_worker_that_has_ended():
    assert "Perhaps" not in raised(lambda: os.stat("/nowhere"))


def test_an_exception_whose_text_raises_has_its_class():
    class TextlessError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    failure = LoaderError(TextlessError())

    assert (failure.kind, failure.message) == ("TextlessError", "")


@pytest.fixture
def child():
    """A process that waits, and is not waited for."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_worker_that_a_signal_ended_is_the_error_of_a_loader_that_waits(child):
    """Though the loader has not noticed it at the end of the run."""
    released = threading.Event()

    def loader():
        yield from range(3)
        child.kill()
        released.wait(60)

    kind = kind_of(as_loader(loader))
    limits = Limits(seconds_ns=int(1e9))
    try:
        consumer, interruption = consume(
            kind.open, limits, lambda: None, lambda counts: None
        )
    finally:
        released.set()

    assert interruption is None
    assert consumer.counts.elements == 3
    message = LoaderError(consumer.counts.failure).message
    assert f"worker process {child.pid} was ended by SIGKILL" in message


def test_other_children_and_short_waits_are_not_an_error(child, monkeypatch):
    """A command that has failed is not a worker; one that just ended may be replaced."""
    failed = subprocess.Popen(["false"])
    os.waitid(os.P_PID, failed.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(
        ended_workers, "_ended_children", lambda: [failed.pid, child.pid]
    )
    assert ended_workers.error_of_workers(int(2e9)) is None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert ended_workers.error_of_workers(int(0.4e9)) is None
    assert "SIGKILL" in str(ended_workers.error_of_workers(int(2e9)))
    failed.wait()
    child.wait()
    assert ended_workers.error_of_workers(int(2e9)) is None
