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


def test_enough_is_not_an_interruption():
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


def test_an_interruption_may_leave_the_locks_of_the_standard_library_acquired(
    monkeypatch,
):
    """CPython runs a signal's handler after `acquire`, before `with` knows of it."""
    stopped = threading.Event()
    caller, enter = threading.get_ident(), threading.Condition.__enter__

    def acquires_and_raises(condition):
        entered = enter(condition)
        if raises and threading.get_ident() == caller:
            raises.clear()
            raise KeyboardInterrupt("inside of Condition.__enter__")
        return entered

    raises = []
    monkeypatch.setattr(threading.Condition, "__enter__", acquires_and_raises)

    def on_poll():
        if raises:  # there was no Condition
            raises.clear()
            raise KeyboardInterrupt("of the poll")
        raises.append(True)

    ended = run_interruptibly(
        endless(stopped), name="work", on_poll=on_poll, stop=stopped.set
    )

    assert isinstance(ended.interruption, KeyboardInterrupt)
    assert ended.value == "what there was"


def test_an_interruption_while_a_condition_waits_is_one(monkeypatch):
    """That of Thread.start: its lock is released twice, which is another error."""
    stopped, caller = threading.Event(), threading.get_ident()
    release = threading.Condition._release_save

    def releases_and_raises(condition):
        state = release(condition)
        if threading.get_ident() == caller:
            raise KeyboardInterrupt("inside of Condition.wait")
        return state

    monkeypatch.setattr(threading.Condition, "_release_save", releases_and_raises)

    ended = run_interruptibly(endless(stopped), name="work", stop=stopped.set)

    assert isinstance(ended.interruption, KeyboardInterrupt)
    assert ended.value == "what there was"
