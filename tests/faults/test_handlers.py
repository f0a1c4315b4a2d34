"""Handlers of signals that a program has set itself, while it runs on an IPU."""

import logging
import os
import signal
import threading

import pytest
import tensorflow as tf

import ipufeed as ipu
from ipufeed.queues import interrupt


class StopError(Exception):
    """Raised by a handler."""


@pytest.fixture
def endless():
    """Runs a program that takes elements without an end."""
    infeed = ipu.IPUInfeedQueue(
        tf.data.Dataset.range(10**12).map(lambda i: tf.cast(i, tf.float32))
    )
    assert infeed.initializer is None
    strategy = ipu.IPUStrategy()

    @tf.function(jit_compile=True)
    def take(times):
        for _ in tf.range(times):
            infeed._dequeue()

    def run(times):
        with strategy.scope():
            strategy.run(take, [tf.constant(times)])

    run(1)
    yield run
    assert infeed.deleter is None


@pytest.fixture
def handled():
    """Sets a handler of SIGTERM; the one from before comes back."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda handler: signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGTERM, before)


def when_running(work):
    """Calls `work` on another thread once the main thread is in a call."""

    def wait():
        while not interrupt._main_calls.running():
            pass
        work()

    threading.Thread(target=wait, daemon=True).start()


def test_the_exception_of_a_handler_that_stops_programs_is_raised(endless, handled):
    """As it is, each time; and the handler is the program's own before and after."""

    def handler(number, frame):
        raise StopError("mine")

    handler.stops_programs = True
    handled(handler)
    for _ in range(10):
        when_running(lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(StopError, match=r"^mine$"):
            endless(10**9)
        assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.long
def test_a_program_after_the_signal_survives_a_late_stop(endless, handled, monkeypatch):
    """The interrupted program ends by itself, and the next one begins before the stop."""
    entry = interrupt._native.entry()
    stop, running, stopped = entry.ipufeed_stop_programs_until, threading.Event(), []

    def stop_late(why, until_ns):
        running.wait(60.0)
        stopped.append(stop(why, until_ns))

    def handler(number, frame):
        raise StopError("mine")

    handler.stops_programs = True
    handled(handler)
    monkeypatch.setattr(entry, "ipufeed_stop_programs_until", stop_late)
    when_running(lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(StopError, match=r"^mine$"):
        endless(10**5)
    when_running(running.set)
    while not stopped:  # each call runs to its end
        endless(10**5)
        running.set()

    assert stopped == [0]


def test_a_handler_that_stops_no_program_is_explained_once(endless, handled, caplog):
    """It runs when the program has ended; until then a line of the log says so."""
    came, explained = [], threading.Event()

    def handler(number, frame):
        came.append(number)

    class Lines(logging.Handler):
        def emit(self, record):
            if "stops_programs = True" in record.getMessage():
                explained.set()

    lines = Lines()
    logging.getLogger("ipufeed").addHandler(lines)
    handled(handler)

    def kill_and_end():
        os.kill(os.getpid(), signal.SIGTERM)
        explained.wait(60.0)  # only without the line it takes this long
        interrupt._native.entry().ipufeed_stop_programs(b"by the test")

    try:
        when_running(kill_and_end)
        with pytest.raises(tf.errors.CancelledError, match="by the test"):
            endless(10**9)
    finally:
        logging.getLogger("ipufeed").removeHandler(lines)

    assert explained.is_set()
    assert came == [signal.SIGTERM]


def test_a_handler_of_an_unsupported_signal_is_warned_of(endless, caplog):
    """`stops_programs` is read for SIGINT and SIGTERM; else it would be set in vain."""

    def wake(number, frame):
        """Never called: no alarm is set."""

    wake.stops_programs = True
    before = signal.signal(signal.SIGALRM, wake)
    try:
        for _ in range(2):
            endless(1)
    finally:
        signal.signal(signal.SIGALRM, before)

    reported = [each for each in caplog.messages if "SIGALRM" in each]
    assert len(reported) == 1
    assert "wake has no effect for SIGALRM" in reported[0]
