"""What is promised of variables whose new values are in the memory of the old ones.

A program with calls writes there only what it computes after its last call: a run that
ends in the middle has changed nothing.
"""

import os

import numpy as np
import pytest
import tensorflow as tf
from dependence import compiled_programs, needs
from replicated import configure
from seeds import generator
from updating_programs import SHAPE, TOO_LARGE, VARIABLES, Place, run, statements

import ipufeed as ipu
from ipufeed.parallel.collectives import ops as collectives

ELEMENTS = 9
# The suite compiles a scatter as a loop, which begins with a copy: tests/conftest.py.
AS_FOR_USERS = "fusion_emitters=false" not in os.environ.get("XLA_FLAGS", "")
FAILURES = (tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError)


def donated(code):
    """The numbers of the parameters that the program writes to."""
    return {
        each.parameter_number
        for each in code.buffers.buffer_allocations
        if each.is_entry_computation_parameter and each.maybe_live_out
    }


def check_order(code):
    """Fails unless what is written to a parameter's memory needs all calls."""
    by_id = {each.proto.id: each for each in code.module.entry.instructions}
    values = {each.id: each for each in code.buffers.logical_buffers}
    calls = [each for each in by_id.values() if each.target.startswith("ipufeed_")]
    for allocation in code.buffers.buffer_allocations:
        if allocation.parameter_number not in donated(code):
            continue
        if not allocation.is_entry_computation_parameter:
            continue
        for one in allocation.assigned:
            maker = by_id[values[one.logical_buffer_id].defined_at.instruction_id]
            if maker.parameter < 0:
                assert set(calls) <= needs(maker), maker


class OnIpu:
    """A program on an IPU, with its variables and queues."""

    def __init__(self, elements):
        self.strategy = ipu.IPUStrategy()
        dataset = tf.data.Dataset.from_tensor_slices(elements)
        self.infeed = ipu.IPUInfeedQueue(dataset)
        self.infeed.initializer  # noqa: B018 (a property that acts)
        self.outfeeds = []
        with self.strategy.scope():
            self.variables = [tf.Variable(each) for each in initial()]
            self.counter = tf.Variable(1)

    def compiled(self, program):
        """The program as a compiled function."""
        place = Place(self.variables, self.counter, self.infeed._dequeue, self.enqueue)
        return tf.function(lambda: run(program, place), jit_compile=True)

    def enqueue(self, value):
        """To a queue of its own: a program enqueues once to each."""
        self.outfeeds.append(ipu.IPUOutfeedQueue())
        self.outfeeds[-1].enqueue(value)

    def state(self):
        """The values of all variables."""
        return [each.numpy() for each in [*self.variables, self.counter]]


def initial():
    size = SHAPE[0] * SHAPE[1]
    return [
        np.arange(size, dtype=np.int32).reshape(SHAPE) + 100 * number
        for number in range(VARIABLES)
    ]


def numbers(refused):
    """The elements; that with the number `refused` has a number that is too large."""
    found = np.arange(ELEMENTS * 30, dtype=np.int32).reshape(ELEMENTS, *SHAPE)
    found[refused, 0, 0] = TOO_LARGE
    return found


class OnHost:
    """The same eagerly, with NumPy's copies to go back to."""

    def __init__(self, elements):
        self.left = list(elements)
        self.variables = [tf.Variable(each) for each in initial()]
        self.counter = tf.Variable(1)
        self.enqueued = []

    def next(self):
        if not self.left:
            raise tf.errors.OutOfRangeError(None, None, "no more")
        return tf.constant(self.left.pop(0))

    def run(self, program):
        """Runs it; after a failure the variables are as they were."""
        before = self.state()
        place = Place(self.variables, self.counter, self.next, self.enqueued.append)
        try:
            run(program, place)
        except FAILURES as error:
            for one, value in zip([*self.variables, self.counter], before, strict=True):
                one.assign(value)
            return type(error)
        return None

    def state(self):
        return [each.numpy() for each in [*self.variables, self.counter]]


@pytest.mark.parametrize("number", range(40))
def test_random_programs_change_what_they_change_on_the_host(number):
    """Also where an assertion fails or the dataset ends, and then nothing."""
    random = generator(__name__, number)
    program = statements(random)
    elements = numbers(refused=random.randrange(ELEMENTS))
    host = OnHost(elements)
    with tf.device("/device:CPU:0"):
        device = OnIpu(elements)
    function = device.compiled(program)

    with compiled_programs() as codes:
        for _ in range(ELEMENTS + 1):
            failed = host.run(program)
            if failed is None:
                device.strategy.run(function)
            else:
                with pytest.raises((*FAILURES, tf.errors.InternalError)):
                    device.strategy.run(function)
            for ours, theirs in zip(device.state(), host.state(), strict=True):
                np.testing.assert_array_equal(ours, theirs, str(program))
            if failed:
                break
    for code in codes:
        check_order(code)


def weights_and_momentum(x, w, m, enqueue):
    """Both read before, by products in both directions, and written after."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.tanh(tf.matmul(x, w.read_value())) ** 2)
    slope = tf.matmul(x, tape.gradient(loss, x), transpose_a=True)[:, :4]
    enqueue(loss)
    m.assign(m * 0.5 + slope)
    w.assign_sub(0.1 * m)


def rows_of_a_table(x, w, m, enqueue):
    """A few rows of both change; one table is read by the call before."""
    enqueue(tf.gather(w, [1, 2]))
    w.scatter_sub(tf.IndexedSlices(x[:2, :4], tf.constant([1, 3])))
    m[1].assign(x[0, :4])


def written_before_the_call(x, w, m, enqueue):
    """The call takes what is computed from the new value."""
    w.assign(w * 2.0)
    m.assign(m + 1.0)
    enqueue((w.read_value(), m.read_value()))


def reversed_rows(x, w, m, enqueue):
    """An element of the new value needs another one of the old."""
    enqueue(x)
    w.assign(tf.reverse(w, [0]))
    m.assign(m + tf.roll(m, 1, 0))


def exchanged(x, w, m, enqueue):
    """Each new value needs the other's old one."""
    enqueue(x)
    old = w + 0.0
    w.assign(m * 2.0)
    m.assign(old)


def in_a_loop(x, w, m, enqueue):
    """The loop goes on with what it has written."""
    for _ in tf.range(3):
        enqueue(x)
        w.assign(w * 2.0)
    m.assign(m + 1.0)


CASES = [
    (weights_and_momentum, {"w", "m"}),
    (rows_of_a_table, {"w", "m"} if AS_FOR_USERS else {"m"}),
    (written_before_the_call, set()),
    (reversed_rows, set()),
    (exchanged, {"w"}),
    (in_a_loop, {"m"}),
]


@pytest.fixture
def infeed():
    elements = np.arange(3 * 24, dtype=np.float32).reshape(3, 4, 6) / 100.0
    queue = ipu.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(elements))
    queue.initializer  # noqa: B018 (a property that acts)
    return queue


@pytest.mark.parametrize(
    ("update", "in_place"), CASES, ids=[update.__name__ for update, _ in CASES]
)
def test_which_variables_keep_their_memory(infeed, strategy, update, in_place):
    """A run that takes no element any more leaves each as it was."""
    outfeed = ipu.IPUOutfeedQueue()
    start = np.arange(24, dtype=np.float32).reshape(6, 4) / 10.0
    with strategy.scope():
        w, m = tf.Variable(start, name="w"), tf.Variable(start + 1.0, name="m")

    @tf.function(jit_compile=True)
    def step():
        update(infeed._dequeue(), w, m, outfeed.enqueue)

    with compiled_programs() as codes:
        strategy.run(step)
    order = {w.handle._id: "w", m.handle._id: "m"}
    captured = step.get_concrete_function().captured_inputs
    names = {order[captured[number]._id] for number in donated(codes[0])}

    assert names == in_place
    check_order(codes[0])
    strategy.run(step)
    strategy.run(step)
    before = [w.numpy(), m.numpy()]
    assert not np.array_equal(before[0], start)
    with pytest.raises(tf.errors.OutOfRangeError):
        strategy.run(step)
    np.testing.assert_array_equal(w.numpy(), before[0])
    np.testing.assert_array_equal(m.numpy(), before[1])


def rounds_with_assertions(x, infeed, enqueue, limits):
    """The loop keeps its number of rounds, and no token."""
    for i in tf.range(limits[0]):
        x = tf.tanh(tf.matmul(x, x))
        tf.debugging.assert_less(tf.cast(i, tf.float32) + 0.0 * x[0, 0], limits[1])


def rounds_with_a_queue(x, infeed, enqueue, limits):
    """XLA computes the factor before the loop, which then keeps it behind the token."""
    for _ in tf.range(limits[0]):
        element = infeed._dequeue()
        x = tf.tanh(tf.matmul(x, x)) * tf.exp(tf.sin(limits[1])) + element[0, 0]
        enqueue(x[0, 0] * tf.exp(-limits[1]))


@pytest.mark.parametrize("rounds", [rounds_with_assertions, rounds_with_a_queue])
def test_a_loop_that_fails_has_all_variables_behind_it(infeed, strategy, rounds):
    """Also where it has numbers that it does not change."""
    outfeed = ipu.IPUOutfeedQueue()
    with strategy.scope():
        limits = [tf.Variable(3), tf.Variable(2.5)]
        # XLA runs a program of a few small steps in order, others at the same time.
        variables = [tf.Variable(tf.ones([1000])) for _ in range(10)]

    @tf.function(jit_compile=True)
    def step():
        read = [limit.read_value() for limit in limits]
        rounds(tf.ones([200, 200]), infeed, outfeed.enqueue, read)
        for variable in variables:
            variable.assign(variable * 2.0)

    limits[1].assign(3.5)
    with compiled_programs() as codes:
        strategy.run(step)
    written = donated(codes[0])
    values = [variable.numpy()[0] for variable in variables]
    assert values == [2.0] * len(variables)
    assert written
    limits[0].assign(50)
    with pytest.raises((*FAILURES, tf.errors.InternalError)):
        strategy.run(step)
    values = [variable.numpy()[0] for variable in variables]
    assert values == [2.0] * len(variables)


def test_with_replicas_each_variable_has_memory_of_its_own(clean_system):
    """All read the same memory. Also a function that was compiled for one IPU before."""
    configure(1)
    strategy = ipu.IPUStrategy()
    outfeeds = [ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue()]

    def program():
        with strategy.scope():
            variable = tf.Variable(tf.zeros([1000]))

        @tf.function(jit_compile=True)
        def step(number):
            number += tf.cast(collectives.replication_index(), tf.float32)
            outfeeds[0].enqueue(tf.reduce_sum(variable) + number)
            variable.assign(variable * 2.0 + 1.0)

        return variable, step

    with compiled_programs() as codes:
        variable, step = program()
        strategy.run(step, [0.0])
        strategy.run(step, [0.0])
        assert donated(codes[0])
        np.testing.assert_array_equal(variable.numpy(), np.full(1000, 3.0))
        assert outfeeds[0].dequeue().numpy().tolist() == [0.0, 1000.0]
        configure(2)
        outfeeds.pop(0)
        variable, step = program()
        for _ in range(3):
            strategy.run(step, [0.5])
        assert not donated(codes[-1])

    np.testing.assert_array_equal(variable.numpy(), np.full(1000, 7.0))
    found = outfeeds[0].dequeue().numpy().tolist()
    assert found == [[0.5, 1.5], [1000.5, 1001.5], [3000.5, 3001.5]]
