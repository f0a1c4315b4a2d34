"""Gradients accumulate in tf.while_loop as in loops.repeat."""

import numpy as np
import pytest
import tensorflow as tf
from replicated import on
from styles import only

from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers.accumulation import GradientAccumulationOptimizerV2
from ipufeed.programs import gen_poputil_ops
from ipufeed.tf_patches.changes import replace

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]
v1 = tf.compat.v1
accumulate = gen_poputil_ops.ipu_stateful_gradient_accumulate
FAILED = tf.errors.FailedPreconditionError


@pytest.fixture(params=["graph", "graph, version 2 loops", "function"])
def ready(request, monkeypatch):
    """A style on one IPU; version 1 graphs have either kind of loop."""
    from tensorflow.python.ops import control_flow_util

    style, _, version_2 = request.param.partition(", ")
    with on(1, style) as entered:
        if style == "graph":
            before = control_flow_util.ENABLE_CONTROL_FLOW_V2
            replace(control_flow_util, "ENABLE_CONTROL_FLOW_V2", bool(version_2))
            yield entered
            replace(control_flow_util, "ENABLE_CONTROL_FLOW_V2", before)
        else:
            yield entered


def sums(count, group, x):
    """The accumulated values of the iterations 1, 2, ..., times x."""

    def body(i, seen):
        total = accumulate(tf.cast(i + 1, tf.float32) * x, group, verify_usage=False)
        return i + 1, tf.concat([seen[1:], [total]], 0)

    return tf.while_loop(lambda i, _: i < count, body, [0, tf.zeros([count])])[1]


def test_a_plain_loop_accumulates(ready):
    """Zeros, and the sum at each third iteration; each run begins with no sum."""
    run = ready.build(lambda x: sums(6, 3, x), 1.0)

    for x in (1.0, 10.0):
        assert only(run(x)).tolist() == [0, 0, 6 * x, 0, 0, 15 * x]


def test_a_count_that_is_not_a_multiple_fails_the_run(ready):
    """Not the building; it names both numbers."""
    run = ready.build(lambda x: sums(4, 3, x), 1.0)

    for _ in range(2):
        with pytest.raises(FAILED, match=r"with 3 number of mini .* with 4 iterations"):
            run(1.0)


def test_the_innermost_loop_counts(ready):
    """A plain loop of 2 in loops.repeat of 3: the sum of 2, three times."""

    def net(x):
        def body(seen):
            return tf.concat([seen[2:], sums(2, 2, x)], 0)

        return ready.repeat(3, body, [tf.zeros([6])])

    assert only(ready.run(net, 1.0)).tolist() == [0, 3, 0, 3, 0, 3]


def test_a_conditional_in_a_plain_loop_sees_its_iterations(ready):
    """The count is that of the loop, and not of the branch."""

    def net(x):
        def body(i, total):
            some = tf.cond(
                i < 2,
                lambda: x,
                lambda: accumulate(x, 2, verify_usage=False),
            )
            return i + 1, total + some

        return tf.while_loop(lambda i, _: i < 4, body, [0, 0.0])[1]

    assert only(ready.run(net, 1.0)) == 4.0


@pytest.mark.parametrize("plain", [False, True])
def test_an_optimizer_accumulates_in_a_branch(ready, plain):
    """As a loss scale does, which skips gradients that are not finite."""
    weight = ready.variable(np.float32(0.0), "weight")

    def net(x):
        optimizer = GradientAccumulationOptimizerV2(
            v1.train.GradientDescentOptimizer(1.0), 2, reduction_method="SUM"
        )

        def body(i):
            def update():
                done = optimizer.apply_gradients([(x, weight)])
                with tf.control_dependencies([done]):
                    return tf.identity(i + 1)

            return tf.cond(x < 10.0, update, lambda: i + 1)

        if plain:
            return tf.while_loop(lambda i: i < 4, body, [0])
        return ready.repeat(4, body, [0])

    ready.run(net, np.float32(1.5))

    assert ready.read(weight) == -4 * 1.5


def test_an_optimizer_accumulates_in_a_plain_loop(ready):
    """Two updates in six iterations, each with the sum of three gradients."""
    weight = ready.variable(np.float32(10.0), "weight")
    inner = v1.train.MomentumOptimizer(1.0, 0.5)
    optimizer = GradientAccumulationOptimizerV2(inner, 3)

    def net(x):
        def body(i):
            gradient = tf.cast(i, tf.float32) * x
            update = optimizer.apply_gradients([(gradient, weight)])
            with tf.control_dependencies([update]):
                return tf.identity(i + 1)

        return tf.while_loop(lambda i: i < 6, body, [0])

    assert only(tf.nest.flatten(ready.run(net, 1.0))) == 6
    assert ready.read(weight) == 10 - 3 - (3 * 0.5 + 12)


USES = {
    "straight": (lambda x: x, None),
    "sum over replicas": (collectives.cross_replica_sum, None),
    "scaled": (lambda x: tf.cast(x * 1.0, tf.float32), None),
    "added": (lambda x: x + 1.0, r"got a AddV2 op"),
    "reduced": (tf.reduce_sum, r"got a Sum op"),
}


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "repeat"])
@pytest.mark.parametrize("use", USES)
def test_the_use_of_the_sum_is_verified_at_the_run(ready, use, plain):
    """The update of a variable, at most scaled or summed over replicas before."""
    between, refused = USES[use]
    weight = ready.variable(np.float32(0.0), "weight")

    def build(verify):
        def body(i):
            total = between(accumulate(tf.ones([]), 2, verify))
            update = tf.raw_ops.ResourceApplyGradientDescent(
                var=weight.handle, alpha=1.0, delta=total
            )
            with tf.control_dependencies([] if update is None else [update]):
                return tf.identity(i + 1)

        def net(x):
            if plain:
                return tf.while_loop(lambda i: i < 4, body, [0])
            return ready.repeat(4, body, [0])

        return ready.build(net, 1.0)

    if refused is None:
        build(True)(1.0)
        assert ready.read(weight) == -4.0
        return
    with pytest.raises(FAILED, match=rf"IpuStatefulGradientAccumulate op .*{refused}"):
        build(True)(1.0)
    assert ready.read(weight) == 0.0
    build(False)(1.0)
    assert ready.read(weight) < 0.0 or use == "reduced"


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "repeat"])
def test_a_result_of_the_loop_is_another_use(ready, plain):
    """The original's message begins so; the remedy is in it."""

    def body(i, total):
        return i + 1, accumulate(total + 1.0, 2)

    def net(x):
        if plain:
            return tf.while_loop(lambda i, _: i < 4, body, [0, x])
        return ready.repeat(4, body, [0, x])

    run = ready.build(net, 1.0)
    text = r"got a result of the loop's body.*give `verify_usage=False`"
    with pytest.raises(FAILED, match=text):
        run(1.0)
