"""What work on a thread of its own promises: Ctrl-C stops it, errors reach the caller."""

import threading

import pytest

from ipufeed.interruptible import run_interruptibly

DEADLOCK_S = 60.0


def endless(stopped):
    """Work that goes on until it is stopped, and then has a result."""

    def work():
        assert stopped.wait(DEADLOCK_S)
        return "what there was"

    return work


def test_work_runs_on_another_thread_and_its_error_is_raised_on_the_callers():
    """The error as it is; a value is returned."""
    caller = threading.get_ident()

    def work():
        raise KeyError(threading.get_ident() != caller)

    with pytest.raises(KeyError, match="True"):
        run_interruptibly(work, name="work").result()
    assert run_interruptibly(lambda: 7, name="work").result() == 7


def test_an_interruption_stops_the_work_and_keeps_what_it_has():
    """As Ctrl-C does, or a progress bar that fails."""
    stopped = threading.Event()

    def on_poll():
        raise KeyboardInterrupt("now")

    ended = run_interruptibly(
        endless(stopped), name="work", on_poll=on_poll, stop=stopped.set
    )

    assert ended.value == "what there was"
    with pytest.raises(KeyboardInterrupt, match="now"):
        ended.result()


def test_enough_is_no_interruption():
    """The poll that says so is the last, and the work is stopped."""
    stopped, polls = threading.Event(), []

    def on_poll():
        polls.append(len(polls))
        return len(polls) == 3

    ended = run_interruptibly(
        endless(stopped),
        name="work",
        on_poll=on_poll,
        stop=stopped.set,
        pause_s=lambda: 1e-3,
    )

    assert ended.result() == "what there was"
    assert polls == [0, 1, 2]


def test_work_that_does_not_stop_is_left_behind():
    """On a daemon, so that the process can end."""
    never, stops = threading.Event(), []

    def on_poll():
        (thread,) = [each for each in threading.enumerate() if each.name == "stuck"]
        assert thread.daemon
        raise KeyboardInterrupt

    ended = run_interruptibly(
        endless(never),
        name="stuck",
        on_poll=on_poll,
        stop=lambda: stops.append(1),
        grace_s=0.2,
    )
    never.set()

    assert (ended.value, ended.error) == (None, None)
    assert isinstance(ended.interruption, KeyboardInterrupt)
    assert len(stops) > 1
