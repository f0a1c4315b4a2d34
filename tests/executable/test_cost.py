"""What the cost analysis promises: the counts that one works out by hand."""

import pytest
import tensorflow as tf
from report_programs import lowered, module

from ipufeed.executable.hlo.hlo import Module
from ipufeed.executable.report.cost import cost_of
from ipufeed.executable.report.ipu_model import IpuModel


def product(left, right):
    return tf.matmul(left, right)


def work(function, *arguments):
    return cost_of(module(function, *arguments)).total


def test_a_product_of_matrices_is_two_flops_for_each_of_its_terms():
    """[8, 16] x [16, 32]: 2 * 8 * 16 * 32, and its three arrays cross once."""
    cost = cost_of(module(product, tf.ones([8, 16]), tf.ones([16, 32])))

    (found,) = [step.work for step in cost.steps if step.instruction.opcode == "dot"]
    assert found.matrix_flops == 2 * 8 * 16 * 32
    assert found.read_bytes == 4 * (8 * 16 + 16 * 32)
    assert found.written_bytes == 4 * 8 * 32


def test_a_batch_of_products_counts_each():
    """A batch dimension is not summed over."""
    found = work(product, tf.ones([5, 8, 16]), tf.ones([5, 16, 4]))

    assert found.matrix_flops == 5 * 2 * 8 * 16 * 4


@pytest.mark.parametrize(
    ("padding", "stride", "positions"),
    [
        ("VALID", 1, (3 * 3) ** 2),
        # Along an axis of 5 with a border, the outer places of the window miss once.
        ("SAME", 1, (4 + 5 + 4) ** 2),
        # Outputs at 0, 2 and 4 of an axis: the outer places miss the border once each.
        ("SAME", 2, (2 + 3 + 2) ** 2),
        ("VALID", 2, (2 * 3) ** 2),
    ],
)
def test_a_convolution_counts_what_lies_on_the_image(padding, stride, positions):
    """3 x 3 on 5 x 5, batch 2, from 3 features to 4; padding is nothing to multiply."""
    found = work(
        lambda x, w: tf.nn.conv2d(x, w, stride, padding),
        tf.ones([2, 5, 5, 3]),
        tf.ones([3, 3, 3, 4]),
    )

    assert found.matrix_flops == 2 * positions * 2 * 3 * 4


def test_elementwise_work_and_transcendentals_are_counted_apart():
    """One of each for an element."""
    found = work(lambda x: tf.exp(x) * x, tf.ones([6, 7]))

    assert (found.vector_flops, found.transcendentals) == (42, 42)


def test_a_reduction_adds_all_but_one_of_each_sum():
    """[6, 7] to [6]: six sums of seven, with a start value: 6 * 7 - 6."""
    found = cost_of(module(lambda x: tf.reduce_sum(x, 1), tf.ones([6, 7])))

    sums = [step for step in found.steps if step.instruction.opcode == "reduce"]
    assert [step.work.vector_flops for step in sums] == [36]


def loop_of_products(trips=None):
    """A loop whose body is one product; XLA may have found out its count."""
    proto = lowered(
        lambda x: tf.while_loop(
            lambda n, x: n < 7, lambda n, x: (n + 1, tf.matmul(x, x)), [0, x]
        )[1],
        tf.ones([4, 4]),
    )
    for computation in proto.computations:
        for one in computation.instructions:
            if one.opcode == "while" and trips is not None:
                one.backend_config = b'{"known_trip_count":{"n":"%d"}}' % trips
    return cost_of(Module.of(proto))


def test_a_loop_of_unknown_count_counts_one_iteration():
    """So the figures are those of an iteration, and the loop says so."""
    found = loop_of_products()

    assert found.total.matrix_flops == 2 * 4**3
    assert [loop.trips for loop in found.loops] == [None]
    assert found.loops[0].iteration.matrix_flops == 2 * 4**3


def test_a_loop_of_known_count_counts_each_iteration():
    """The total is of all, the loop's own figures are of one."""
    found = loop_of_products(trips=7)

    assert found.total.matrix_flops == 7 * 2 * 4**3
    assert found.loops[0].trips == 7
    assert found.loops[0].iteration.matrix_flops == 2 * 4**3
    step = next(step for step in found.steps if step.work.matrix_flops)
    assert step.executions == 7


def test_a_stage_counts_in_the_turns_that_have_a_mini_batch():
    """Of seven iterations of an IPU's loop, its stage may have one in four."""

    def iteration(number, x):
        with tf.name_scope("4_of_7_iterations"):
            x = tf.cond(number < 4, lambda: inside(x), lambda: x)
        return number + 1, x

    def inside(x):
        with tf.name_scope(
            "4_of_7_iterations"
        ):  # as what is put in its place may be called
            return tf.cond(x[0, 0] > 0, lambda: tf.matmul(x, x), lambda: x)

    proto = lowered(
        lambda x: tf.while_loop(lambda n, x: n < 7, iteration, [0, x])[1],
        tf.ones([4, 4]),
    )
    for computation in proto.computations:
        for one in computation.instructions:
            if one.opcode == "while":
                one.backend_config = b'{"known_trip_count":{"n":"7"}}'
    found = cost_of(Module.of(proto))

    assert found.total.matrix_flops == 4 * 2 * 4**3
    (product,) = [step for step in found.steps if step.work.matrix_flops]
    assert product.executions == 4


def test_a_damaged_count_is_an_unknown_one():
    """What XLA notes for itself may be of any form."""
    proto = lowered(
        lambda x: tf.while_loop(lambda x: x < 7.0, lambda x: (x + 1.0,), [x]), 0.0
    )
    for computation in proto.computations:
        for one in computation.instructions:
            one.backend_config = b'{"known_trip_count":['

    assert [loop.trips for loop in cost_of(Module.of(proto)).loops] == [None]


def test_cycles_follow_from_the_model():
    """Two tiles, one flop per cycle: half the flops, and the sync of one step."""
    model = IpuModel(
        tiles=2, matrix_flops={"f32": 1.0}, exchange_bytes=1e30, sync_cycles=5.0
    )

    found = cost_of(module(product, tf.ones([8, 16]), tf.ones([16, 32])), model)

    (step,) = [step for step in found.steps if step.instruction.opcode == "dot"]
    assert step.work.cycles == pytest.approx(2 * 8 * 16 * 32 / 2 + 5)
