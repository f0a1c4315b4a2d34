"""Random pairs that are one program, and pairs that are not.

Twenty of each, and as many as IPUFEED_TEST_PAIRS says: `.ci/run` asks for a hundred.
"""

import os
import sys

import children
import pytest
import random_programs
import tensorflow as tf
from helpers import DEADLOCK_S, ROOT
from lowering import lowering
from random_programs import OTHER, arguments, build, configure, recipe

from ipufeed.device.program import loops
from ipufeed.executable.explanation.explain import explain_programs
from ipufeed.queues import IPUInfeedQueue

pytestmark = pytest.mark.long

PAIRS = int(os.environ.get("IPUFEED_TEST_PAIRS", "20"))


@pytest.fixture
def lower(clean_system):
    configure(recipe(0))
    with lowering() as lower:
        yield lower


def renamed(lower, seed):
    """Another name of the function."""
    each = recipe(seed)
    return lower(build(each, name=f"other_{seed}"), *arguments(each))


def moved(lower, seed):
    """The function further down in its file."""
    each = recipe(seed)
    return lower(build(each, lines=seed + 1), *arguments(each))


def scoped(lower, seed):
    """Ops with other names."""
    each = recipe(seed)
    net = build(each)

    def net_in_scope(x, rate):
        with tf.name_scope("a_scope"):
            return net(x, rate)

    return lower(net_in_scope, *arguments(each))


def after_others(lower, seed):
    """Other functions have been traced before."""
    for n in range(3):
        tf.function(lambda x, n=n: x * n + 1).get_concrete_function(
            tf.TensorSpec([n + 1], tf.float32)
        )
    each = recipe(seed)
    return lower(build(each), *arguments(each))


def on_another_ipu(lower, seed):
    """The second IPU of two."""
    each = recipe(seed)
    return lower(build(each), *arguments(each), ordinal=1)


def with_another_value(lower, seed):
    """What is passed as an input."""
    each = random_programs.replace(recipe(seed), rate=0.25 + seed)
    return lower(build(each), *arguments(each))


DONE = [renamed, moved, scoped, after_others, on_another_ipu, with_another_value]


def fed(seed):
    """The program in a loop with queues, which are new each time."""
    each = recipe(seed)
    net = build(each)
    rows, _ = arguments(each)
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensors(rows).repeat())
    _ = queue.initializer

    def looped(rate):
        def body(total, x):
            return total + net(x, rate)

        return loops.repeat(2, body, [0.0], queue)

    return looped, each


def test_what_must_not_matter_does_not(lower):
    """Pairs that differ in names, lines, traces, queues, IPU or values: one key."""
    spurious = []
    for seed in range(PAIRS):
        if seed % (len(DONE) + 1) == len(DONE):
            programs = []
            for _ in range(2):
                looped, each = fed(seed)
                programs.append(lower(looped, arguments(each)[1]))
            one, other = programs
            change = "new queues"
        else:
            do = DONE[seed % (len(DONE) + 1)]
            each = recipe(seed)
            one, other = lower(build(each), *arguments(each)), do(lower, seed)
            change = do.__name__
        if one.key != other.key:
            spurious.append((seed, change, explain_programs(one, other)))

    assert not spurious


def test_what_must_matter_does_and_is_named(lower):
    """Pairs with one planted change: two keys, and the change is what is listed."""
    missed, unnamed = [], []
    kinds = list(OTHER)
    for seed in range(PAIRS):
        change, expected = OTHER[kinds[seed % len(kinds)]]
        before = recipe(seed)
        after = change(before)
        one = lower(build(before), *arguments(before))
        surroundings = (after.ipus, after.tiles) != (before.ipus, before.tiles)
        if surroundings:
            configure(after)
        other = lower(build(after), *arguments(after))
        if surroundings:
            configure(before)
        if one.key.number == other.key.number:
            missed.append((seed, kinds[seed % len(kinds)]))
            continue
        causes = [str(cause) for cause in explain_programs(one, other)]
        reported = [cause for cause in causes if "from that" not in cause]
        if expected(before) not in "\n".join(reported) or len(reported) > 2:
            unnamed.append((seed, expected(before), causes))

    assert not missed
    assert not unnamed


@pytest.mark.process
def test_other_processes_have_the_same_keys(lower):
    """Another process, with another hash seed, works out the same."""
    first, count = 1000, 10
    here = []
    for seed in range(first, first + count):
        each = recipe(seed)
        here.append(lower(build(each), *arguments(each)).key.hex)

    done = children.run(
        [sys.executable, random_programs.__file__, str(first), str(count)],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONHASHSEED": "4242",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == here
