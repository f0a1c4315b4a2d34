"""Pre-compiling: programs are compiled and stored, and nothing runs."""

import itertools
import logging
import re

import numpy as np
import pytest
import styles
import tensorflow as tf
from program_loops import configured, loop, stats, unique, v1

from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.program import compiler
from ipufeed.device.program.outside_compilation import outside_compilation_scope
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.executable.store import counters
from ipufeed.queues import IPUOutfeedMode, IPUOutfeedQueue


@pytest.fixture(autouse=True)
def fresh(clean_system):
    """No device holds a program, and the counters are at 0."""
    counters.reset_stats()


# ---- Pre-compiling


def counted(elements_taken):
    """A dataset that notes what has been taken from it."""

    def generate():
        while True:
            elements_taken.append(1)
            yield np.ones([4], np.float32)

    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([4], tf.float32)
    )


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
def test_pre_compiling_gives_zeros_and_changes_nothing(flags, tmp_path, mode, style):
    """No device, no element taken, no variable changed; one result of zeros per look.

    The initialisation of a version 1 graph's variables is a program, too.
    """
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE)
    taken = []
    outfeed = IPUOutfeedQueue(outfeed_mode=mode)
    constant = float(next(unique))
    with styles.entered(style, "xla") as ready:
        infeed = ready.feed(lambda: counted(taken))
        variable = ready.variable(np.float32([1.0, 2.0]), "variable")

        def program(n):
            def body(x, element):
                more = tf.reduce_sum(element) * constant * tf.ones([2])
                with tf.control_dependencies([variable.assign_add(more)]):
                    return x + 1.0, outfeed.enqueue({"x": x, "v": variable})

            return ready.repeat(n, body, [tf.ones([])], infeed)

        result = ready.run(program, np.int32(3))
        looks = [ready.read(outfeed.dequeue()) for _ in range(2)]
        programs = 1 if style == "function" else 2
        assert len(list((tmp_path / "cache").glob("*.poplar_exec"))) == programs
        assert (stats().saved, stats().loads) == (programs, 0)
        kept = [1.0, 2.0] if style == "function" else [0.0, 0.0]
        assert ready.read(variable).tolist() == kept
        if mode is IPUOutfeedMode.ALL and style == "function":
            assert [float(row["x"]) for row in outfeed.stream()] == [0.0]
            for _ in range(2):
                some = list(itertools.islice(outfeed, 3))
                assert [float(row["x"]) for row in some] == [0.0]

    assert styles.only(result) == 0.0
    assert taken == []
    shape = [] if mode is IPUOutfeedMode.LAST else [1]
    for results in looks:
        assert results["x"].tolist() == np.zeros(shape).tolist()
        assert results["v"].tolist() == np.zeros([*shape, 2]).tolist()


def test_pre_compiling_reports_where_the_program_is(flags, tmp_path, caplog):
    """In the words that users look for."""
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE)
    with caplog.at_level(logging.INFO, "ipufeed"):
        loop(float(next(unique)))[0](1)

    (path,) = (tmp_path / "cache").iterdir()
    expected = f"A pre-compiled Poplar program has been saved to {path}"
    assert expected in [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"[1-9a-f][0-9a-f]*\.poplar_exec", path.name)


@pytest.mark.parametrize("remote", [False, True])
def test_a_compiled_program_is_found_with_any_option_of_remote_buffers(
    flags, tmp_path, remote
):
    """A program that has none is the same with and without them."""
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE, remote)
    constant = float(next(unique))
    loop(constant)[0](1)
    assert stats().compiles == 1
    configured(DeviceConnectionType.ALWAYS, not remote)

    assert loop(constant)[0](1) == [4 * constant] * 2
    assert stats().compiles == 1


def test_pre_compiling_needs_a_folder(clean_system):
    """Without one there is nothing that it could do."""
    configured(DeviceConnectionType.PRE_COMPILE)
    run, _ = loop(float(next(unique)))
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match="'executable_cache_path' in 'TF_POPLAR_FLAGS' has not been set",
    ):
        run(1)


def test_pre_compiling_refuses_programs_of_the_executor(flags, tmp_path):
    """Those that call the host."""
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE)

    def body(x):
        with outside_compilation_scope():
            y = tf.identity(x)
        return y + 1.0

    strategy = IPUStrategy()
    with strategy.scope(), pytest.raises(tf.errors.UnimplementedError, match="outside"):
        strategy.run(tf.function(body, jit_compile=True), [tf.ones([2])])
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        with ipu_scope("/device:IPU:0"):
            result = compiler.compile(body, [x])
        with (
            v1.Session() as session,
            pytest.raises(tf.errors.UnimplementedError, match="outside"),
        ):
            session.run(result, {x: [1.0, 2.0]})


def test_pre_compiling_saves_functions_without_jit_compile(flags, tmp_path):
    """They are programs, too, and give zeros."""
    flags(f"--executable_cache_path={tmp_path}")
    configured(DeviceConnectionType.PRE_COMPILE)
    constant = float(next(unique))

    @tf.function
    def plain(x):
        return x + constant

    result = IPUStrategy().run(plain, [tf.ones([2])])
    np.testing.assert_array_equal(result, [0, 0])
    assert stats().saved == 1


def test_never_compiles_and_does_not_run(clean_system):
    """The error comes after the compilation."""
    configured(DeviceConnectionType.NEVER)

    @tf.function(jit_compile=True)
    def program(x):
        return x * float(constant)

    constant = next(unique)
    ones = tf.ones([2])
    with (
        tf.device("/device:IPU:0"),
        pytest.raises(tf.errors.InvalidArgumentError, match="for compilation only"),
    ):
        program(ones)
    assert stats().compiles == 1


def test_on_demand_attaches_after_it_has_compiled(clean_system, caplog):
    """The device is not needed for compiling."""
    configured(DeviceConnectionType.ON_DEMAND)
    run, _ = loop(float(next(unique)))
    with caplog.at_level(logging.INFO, "ipufeed"):
        run(1)
    text = [record.getMessage() for record in caplog.records]
    compiled = next(n for n, line in enumerate(text) if line.startswith("Compiled "))
    attached = next(n for n, line in enumerate(text) if "attached to 1 IPU" in line)
    assert compiled < attached
