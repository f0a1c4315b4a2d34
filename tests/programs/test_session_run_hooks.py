"""What IPULoggingTensorHook logs, and when."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed import no_effect
from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.programs.session_run_hooks import IPULoggingTensorHook, LoggingMode

v1 = tf.compat.v1


@pytest.fixture
def lines(caplog):
    """What TensorFlow's logger has been given by hooks."""
    caplog.set_level("INFO", logger="tensorflow")
    return lambda: [each.message for each in caplog.records if " = " in each.message]


def run(hooks, body, times, count=2):
    """Runs a loop of `count` iterations, with the iteration's number, several times."""
    with tf.Graph().as_default():
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(
                lambda: loops.repeat(count, body, [tf.constant(0.0)]), []
            )
        with v1.train.MonitoredSession(hooks=hooks) as session:
            for _ in range(times):
                session.run(program)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (LoggingMode.LAST, ["foo = 2.0"] * 2),
        (LoggingMode.ALL, ["foo = [1. 2.]", "foo = [1. 2. 1. 2.]"]),
    ],
)
def test_it_logs_after_the_first_run_and_at_its_interval(lines, mode, expected):
    """Runs 1 and 3 of 3: all values since the last line, or the last value."""
    hook = IPULoggingTensorHook(every_n_iter=2, logging_mode=mode)
    run([hook], lambda x: (x + 1, hook.log({"foo": x + 1})), times=3)

    found = [line.partition(" (")[0] for line in lines()]
    assert found == expected


def test_arguments_of_older_releases_are_accepted_with_a_warning(caplog):
    """The name of its feed and the replicas, also by position."""
    no_effect.forget()
    IPULoggingTensorHook(at_end=True, feed_name="logging_hook", replication_factor=2)
    IPULoggingTensorHook(None, None, True, None, LoggingMode.ALL, "logging_hook", 1)

    for name in ("feed_name", "replication_factor"):
        assert f"`IPULoggingTensorHook({name}=)` has no effect" in caplog.text
    with pytest.raises(TypeError, match="unexpected keyword argument 'feed_names'"):
        IPULoggingTensorHook(at_end=True, feed_names="x")
    with pytest.raises(TypeError, match="`feed_name` must be a str or None, got int 3"):
        IPULoggingTensorHook(at_end=True, feed_name=3)


def test_at_the_end_it_logs_once_without_a_time(lines):
    """And another session can have the hook again; a list is known by tensors' names."""
    hook = IPULoggingTensorHook(at_end=True)
    for _ in range(2):
        run([hook], lambda x: (x + 1, hook.log([tf.identity(x, name="foo")])), 2)

    assert lines() == ["foo:0 = 1.0"] * 2


def test_several_hooks_do_not_disturb_one_another(lines):
    """Each has an outfeed of its own; a formatter makes the line."""
    one = IPULoggingTensorHook(every_n_iter=1, formatter=lambda found: f"one = {found}")
    other = IPULoggingTensorHook(every_n_secs=1000.0)

    def body(x):
        return x + 1, one.log({"a": x}), other.log({"b": x * 1e-7})

    before = np.get_printoptions()
    run([one, other], body, times=2)

    found = sorted(line.partition(" (")[0] for line in lines())
    assert found[0].startswith("b = ")
    assert found[1:] == ["one = {'a': np.float32(1.0)}"] * 2
    assert np.get_printoptions() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"every_n_iter": 1, "every_n_secs": 1},
            "Cannot provide both every_n_iter and every_n_secs",
        ),
        ({}, "Either every_n_iter, every_n_secs or at_end should be provided"),
    ],
)
def test_it_must_know_when(arguments, message):
    """In the original's words."""
    with pytest.raises(ValueError, match=message):
        IPULoggingTensorHook(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"every_n_iter": 0}, ValueError, "`every_n_iter` must be at least 1, got 0"),
        (
            {"every_n_iter": 1.5},
            TypeError,
            "`every_n_iter` must be an int or None, got",
        ),
        ({"every_n_secs": -1}, ValueError, "`every_n_secs` must be at least 0, got -1"),
        ({"every_n_secs": float("nan")}, ValueError, "must be at least 0, got nan"),
        ({"every_n_secs": "a"}, TypeError, "`every_n_secs` must be a number, got str"),
    ],
)
def test_an_interval_is_checked_when_the_hook_is_made(arguments, error, message):
    """Not by the timer, in the middle of the training."""
    with pytest.raises(error, match=message):
        IPULoggingTensorHook(**arguments)


def test_log_is_called_once_with_tensors():
    """What is wrong raises when the graph is built, or the session begins."""
    hook = IPULoggingTensorHook(at_end=True)
    with pytest.raises(RuntimeError, match="Did you forget to call the log function"):
        hook.begin()
    with tf.Graph().as_default():
        with pytest.raises(TypeError, match=r"Expected `tf.Tensor`, got <class 'int'>"):
            hook.log([3])
        hook.log(tf.constant(1.0))
        with pytest.raises(RuntimeError, match="log function more than once"):
            hook.log(tf.constant(1.0))
