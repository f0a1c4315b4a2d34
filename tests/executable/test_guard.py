"""no_recompile(), and the warning at the third recompile."""

import logging
import threading

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S
from lowering import lowering

import ipufeed
from ipufeed.device.program import compiler
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.errors import RecompileError
from ipufeed.executable.compile import history as history_module
from ipufeed.executable.compile.history import History

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def one_ipu(clean_system):
    config = ipufeed.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()


def function(name, factor):
    """A function of that name, with a constant baked in."""
    names = {}
    exec(f"def {name}(x):\n    return x * {factor}\n", names)
    return tf.function(names[name], jit_compile=True, autograph=False)


def run(program, size=4):
    strategy = IPUStrategy()
    with strategy.scope():
        return strategy.run(program, [tf.ones([size])]).numpy()


def test_what_has_been_compiled_runs_in_the_block():
    """Warm up, then measure: nothing is in the way."""
    program = function("warm", 3.0)
    run(program)

    with ipufeed.no_recompile():
        assert run(program).tolist() == [3.0] * 4


def test_a_recompile_raises_with_its_cause():
    """The error says what changed since, and keeps TensorFlow's."""
    program = function("resized", 3.5)
    run(program, 4)

    with pytest.raises(RecompileError) as caught, ipufeed.no_recompile():
        run(program, 5)

    assert "resized" in str(caught.value)
    assert "argument `x` changed shape [4] -> [5]" in str(caught.value)
    assert isinstance(caught.value.__cause__, tf.errors.OpError)


def test_a_program_that_was_never_compiled_is_an_error():
    """There is nothing to compare with, and the remedy is to warm up."""
    with (
        pytest.raises(RecompileError, match="run it once before the block"),
        ipufeed.no_recompile(),
    ):
        run(function("unheard_of", 4.5))


def test_after_the_block_programs_are_compiled_again():
    """A refusal leaves nothing behind, and the refused program can be compiled."""
    program = function("later", 5.5)
    with pytest.raises(RecompileError), ipufeed.no_recompile():
        run(program)

    assert run(program).tolist() == [5.5] * 4


def test_what_an_inner_block_has_raised_the_outer_does_not():
    """One error comes out once."""
    program = function("nested", 6.5)

    with ipufeed.no_recompile(), pytest.raises(RecompileError), ipufeed.no_recompile():
        run(program)


def test_the_end_of_an_inner_block_does_not_end_the_outer():
    """Blocks are counted."""

    def inner_and_then_run():
        with ipufeed.no_recompile():
            pass
        run(function("still_guarded", 7.5))

    with pytest.raises(RecompileError, match="still_guarded"), ipufeed.no_recompile():
        inner_and_then_run()


def test_a_refusal_on_another_thread_comes_out_of_the_block():
    """A thread's error is lost as a rule; a benchmark must not silently go on."""
    failed = []

    def work():
        try:
            run(function("threaded", 8.5))
        except tf.errors.OpError as error:
            failed.append(error)

    def run_on_a_thread():
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(DEADLOCK_S)

    with pytest.raises(RecompileError, match="threaded"), ipufeed.no_recompile():
        run_on_a_thread()
    assert failed


def test_another_error_passes_the_block():
    """The guard does not change what it is not about."""
    with pytest.raises(KeyError, match="mine"), ipufeed.no_recompile():
        raise KeyError("mine")


def test_a_session_is_guarded_and_names_the_function():
    """TensorFlow 1: the error comes out of Session.run, with the author's name."""

    def my_net(x):
        return x * 9.25

    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [4])
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(my_net, [x])
        feed = {x: np.ones(4, np.float32)}
        with (
            pytest.raises(RecompileError, match="Program my_net "),
            ipufeed.no_recompile(),
        ):
            session.run(program, feed)
        (result,) = session.run(program, feed)

    assert result.tolist() == [9.25] * 4


def test_the_third_recompile_is_warned_of_with_its_cause(caplog):
    """Compilations 4, 5 and 7 warn, others do not: ever rarer, and never before."""
    caplog.set_level(logging.WARNING)
    warned = []
    for n in range(1, 9):
        caplog.clear()
        run(function("again_and_again", 100.5 + n))
        if any("again_and_again" in each for each in caplog.messages):
            warned.append(n)
            text = caplog.messages[-1]
            assert f"compiled {n} times" in text
            assert f"constant {99.5 + n} -> {100.5 + n} baked into `mul`" in text

    assert warned == [4, 5, 7]


def named(name, program):
    """The program under another name."""
    return history_module.Program(
        name,
        program.key,
        program.arguments,
        program.context,
        program.hlo,
        program.kinds,
    )


def test_programs_without_a_name_are_compared_only_if_they_are_alike(caplog):
    """Two version 1 programs called "cluster" are not explained by each other."""
    history = History()
    with lowering() as lower:

        def big(n):
            return lambda x: tf.nn.softmax(tf.tanh(tf.exp(x))) * n

        ones = np.ones(4, np.float32)
        loud = [named("cluster", lower(big(float(n)), ones)) for n in range(6)]
        other = [
            named("cluster", lower(lambda x, n=n: x - float(n), ones)) for n in range(3)
        ]

    caplog.set_level(logging.WARNING)
    for each in (*loud[:3], *other):
        history.add(each, compiled=True)
    assert not caplog.messages  # six programs "cluster", but of two kinds
    assert history.last(loud[5]) is loud[2]

    history.add(loud[3], compiled=True)
    (message,) = caplog.messages
    assert "constant 2.0 -> 3.0 baked into `mul`" in message


def test_unrelated_programs_of_one_name_are_not_counted_together(caplog):
    """Functions of many models are called `step`; `last` still finds one of the name."""
    history = History()
    bodies = [
        lambda x: x - 1.0,
        lambda x: tf.nn.softmax(tf.tanh(tf.exp(x))) * 2.0,
        lambda x: tf.sort(tf.cumsum(tf.concat([x, x], 0))),
        lambda x: tf.where(x > 0, tf.math.log(x), tf.zeros_like(x)),
        lambda x: tf.reverse(tf.round(tf.pad(x, [[1, 1]])), [0]),
    ]
    with lowering() as lower:
        ones = np.ones(4, np.float32)
        programs = [named("step/cluster", lower(body, ones)) for body in bodies]

    caplog.set_level(logging.WARNING)
    for each in programs:
        history.add(each, compiled=True)

    assert not caplog.messages
    assert history.last(programs[1]) is programs[1]  # the family of that one
    with lowering() as lower:
        unlike = lower(lambda x: tf.linalg.diag(x) @ tf.linalg.diag(x), ones)
    assert history.last(named("step/cluster", unlike)) is programs[-1]


def test_a_program_must_not_fail_for_want_of_an_explanation(caplog, monkeypatch):
    """An error in the explanation is reported, and the program is compiled."""
    from ipufeed.executable.explanation import explain as explaining

    def broken(before, after):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(explaining, "explain_programs", broken)
    caplog.set_level(logging.WARNING)
    for n in range(4):
        run(function("unexplained", 200.5 + n))

    assert (
        "that could not be determined (ZeroDivisionError: planted)"
        in caplog.messages[-1]
    )


def test_many_threads_are_counted_without_loss(caplog):
    """Eight threads add programs at once: each is there, and nothing raises."""
    history = History()
    with lowering() as lower:
        ones = np.ones(4, np.float32)
        programs = [lower(lambda x, n=n: x * float(n), ones) for n in range(32)]
    barrier = threading.Barrier(8)

    def add(part):
        barrier.wait()
        for each in part:
            history.add(each, compiled=True)
            assert history.last(each) is not None

    threads = [
        threading.Thread(target=add, args=(programs[n::8],), daemon=True)
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(history.programs()) == 32


def test_old_programs_are_forgotten_before_the_memory_is_full(monkeypatch):
    """The text of programs is bounded; the last one stays."""
    with lowering() as lower:
        ones = np.ones(4, np.float32)
        programs = [lower(lambda x, n=n: x * float(n), ones) for n in range(4)]
    monkeypatch.setattr(History, "MAX_BYTES", 2 * len(programs[0].hlo) + 64)
    history = History()
    for each in programs:
        history.add(each, compiled=True)

    assert history.programs() == programs[-2:]
