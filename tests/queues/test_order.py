"""The queue ops of a program act in the order in which they were written.

Each program here returns the elements in the order in which its text takes them, with
heavy computing in between, which XLA and TensorFlow's executor like to move and to run at
the same time.
"""

import numpy as np
import pytest
import tensorflow as tf
from dependence import check_chained, compiled_modules
from styles import CASES, entered, only

from ipufeed.device.program import executor as params
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

SIZE = 192


def numbers():
    return tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32))


def heavy(x, times=3):
    """The same value, for which much is computed."""
    matrix = tf.eye(SIZE) * tf.cast(x, tf.float32)
    for _ in range(times):
        matrix = tf.linalg.matmul(matrix, tf.eye(SIZE))
    return tf.reduce_sum(matrix) / SIZE


class Taker:
    """Builds a program out of dequeues, in the style that is tested."""

    def __init__(self, style):
        self.style = style
        self.queue = style.feed(numbers)
        self.weight = style.variable(1.0, "weight")

    def one(self):
        return self.queue._dequeue()

    def several(self, times, body):
        """Runs a loop that takes `times` elements; returns them."""

        def step(taken, x):
            return put(taken, times, body(x))

        return self.style.repeat(times, step, [tf.zeros([times])], self.queue)

    def train(self, x):
        """Work that takes the element, and changes a variable by nothing."""
        value = heavy(x)
        with tf.control_dependencies([self.weight.assign_add(0.0 * value)]):
            return tf.identity(value)


def put(taken, times, x):
    """Shifts x in from the right."""
    return tf.concat([taken[1:], [x]], 0) if times > 1 else tf.reshape(x, [1])


def sibling_loops(taker):
    trained = taker.several(4, taker.train)
    validated = taker.several(3, lambda x: x)
    trained_more = taker.several(4, taker.train)
    return [trained, validated, trained_more]


def loops_that_share_nothing(taker):
    """Their order is that of the text alone: no value and no variable gives it."""
    return [taker.several(times, lambda x: x) for times in (3, 2, 4)]


def conditional_after_a_loop(taker):
    def loops():
        first = taker.several(2, lambda x: x)
        return tf.concat([first, taker.several(2, lambda x: x)], 0)

    def alone():
        return tf.stack([taker.one()] * 4)

    first = taker.several(2, lambda x: x)
    both = tf.cond(taker.weight.read_value() > 0.0, loops, alone)
    return [first, both, taker.several(3, lambda x: x), [taker.one()]]


def dequeues_around_loops(taker):
    first = heavy(taker.one(), 8)
    loop = taker.several(3, taker.train)
    between = taker.one()
    light = taker.several(2, lambda x: x)
    return [[first], loop, [between], light, [heavy(taker.one())]]


def nested_loops(taker):
    def outer(taken):
        inner = taker.several(2, taker.train)
        alone = taker.one()
        return tf.concat([taken[3:], inner, [alone]], 0)

    before = taker.one()
    loop = taker.style.repeat(3, outer, [tf.zeros([9])])
    return [[before], loop, [taker.one()]]


def own_loops(taker):
    def loop(times, work):
        def body(i, taken):
            return i + 1, put(taken, times, work(taker.one()))

        return tf.while_loop(
            lambda i, _: i < times, body, [tf.constant(0), tf.zeros([times])]
        )[1]

    first = loop(4, heavy)
    return [first, [taker.one()], loop(5, lambda x: x), [heavy(taker.one())]]


def conditionals(taker):
    before = taker.one()

    def two():
        return tf.stack([heavy(taker.one(), 8), taker.one()])

    def one_twice():
        x = taker.one()
        return tf.stack([x, x])

    first = tf.cond(before < 1.0, two, one_twice)  # 1, 2
    second = tf.cond(taker.one() < 1.0, two, one_twice)  # 3; 4, 4
    loop = taker.several(2, lambda x: x)  # 5, 6
    third = tf.cond(before < 1.0, two, one_twice)  # 7, 8
    after = taker.one()  # 9
    return [[before], first, [second[0] - 1], [second[1]], loop, third, [after]]


def conditional_in_a_loop(taker):
    def body(i, taken):
        x = taker.one()
        odd = tf.equal(i % 2, 1)
        y = tf.cond(odd, lambda: heavy(taker.one(), 8), lambda: taker.one())
        return i + 1, tf.concat([taken[2:], [x, y]], 0)

    loop = tf.while_loop(lambda i, _: i < 3, body, [tf.constant(0), tf.zeros([6])])[1]
    return [loop, [taker.one()]]


def one_of_several(taker):
    def branch(times):
        def take():
            return tf.stack([heavy(taker.one(), times), taker.one()])

        return take

    before = taker.one()
    chosen = tf.switch_case(tf.constant(1), [branch(1), branch(8), branch(2)])
    return [[before], chosen, [taker.one()]]


def functions(taker):
    """Called twice each; one of them has a variable, the other has none."""

    @tf.function
    def trains():
        return taker.train(taker.one())

    @tf.function
    def takes():
        return taker.several(2, lambda x: x)

    first = trains()
    second = takes()
    third = trains()
    alone = taker.one()
    fourth = takes()
    return [[first], second, [third], [alone], fourth, [trains()]]


PROGRAMS = [
    sibling_loops,
    loops_that_share_nothing,
    conditional_after_a_loop,
    dequeues_around_loops,
    nested_loops,
    own_loops,
    conditionals,
    conditional_in_a_loop,
    one_of_several,
    functions,
]


def autograph_loops(taker):
    taken = tf.zeros([4])
    for _ in tf.range(4):  # 0 to 3
        taken = put(taken, 4, heavy(taker.one()))
    between = taker.one()  # 4
    odd = tf.zeros([2])
    while taker.one() < 9.0:  # 5, 7, 9
        odd = put(odd, 2, heavy(taker.one()))  # 6, 8
    last = taker.one()  # 10
    if last > 9.0:
        last = heavy(taker.one())  # 11
    return [
        taken,
        [between, odd[0] - 1],
        [odd[0], odd[1] - 1],
        [odd[1]],
        [9.0, last - 1],
        [last],
    ]


def run(style, build):
    """What the program has taken, in the order of its text."""
    taker = Taker(style)

    def net():
        return tf.concat([tf.reshape(each, [-1]) for each in build(taker)], 0)

    return only(style.run(net))


# Autograph is for functions.
# The executor runs the loops of `while v2` as it runs those of a function.
SOAK = ("graph, while v2", "tensorflow")
ALL = [
    *(
        pytest.param(*case, each, marks=pytest.mark.soak if case == SOAK else ())
        for case in CASES
        for each in PROGRAMS
    ),
    *(("function", executor, autograph_loops) for executor in params._EXECUTORS),
]


@pytest.mark.parametrize(("style", "executor", "program"), ALL)
def test_elements_come_in_the_order_of_the_text(style, executor, program):
    with entered(style, executor) as ready, compiled_modules() as modules:
        taken = run(ready, program)
        np.testing.assert_array_equal(taken, np.arange(len(taken)))
    if executor == "tensorflow":
        assert not modules
        return
    # That they came in order may be luck. That each call needs the one before is none.
    # The initialisation of variables is a program as well. The same program of another
    # style is not compiled.
    lowered, *optimised = [m for m in modules if not m.name.startswith("cluster_")]
    assert check_chained(lowered) > 2
    for module in optimised:
        check_chained(module)


@pytest.mark.parametrize("executor", params._EXECUTORS)
def test_results_come_in_the_order_of_the_text(executor):
    """Of loops, a conditional and a call that enqueue to the same queue."""
    with entered("function", executor) as style, compiled_modules() as modules:
        infeed, outfeed = style.feed(numbers), IPUOutfeedQueue()

        def loop(times, work):
            style.repeat(times, lambda x: outfeed.enqueue(work(x)), [], infeed)

        @tf.function
        def call(x):
            outfeed.enqueue(x)

        def net():
            loop(3, lambda x: heavy(x, 8))  # 0, 1, 2
            call(infeed._dequeue())  # 3
            loop(2, lambda x: x)  # 4, 5
            x = infeed._dequeue()  # 6

            def give():
                outfeed.enqueue(heavy(x, 8))
                return x

            kept = tf.cond(x > 0.0, give, lambda: 0.0)
            call(infeed._dequeue())  # 7
            return kept

        assert only(style.run(net)) == 6.0
        np.testing.assert_array_equal(style.read(outfeed.dequeue()), np.arange(8.0))
    for module in modules:
        assert check_chained(module) == 10
    assert bool(modules) == (executor == "xla")


@pytest.mark.parametrize(("style", "executor"), CASES)
def test_one_result_before_or_after_loops_is_in_the_order_of_the_text(style, executor):
    """Also of a program within a loop, and where a branch follows."""
    with entered(style, executor) as ready:
        outfeed = IPUOutfeedQueue()

        def wait_for(done):
            return tf.control_dependencies([] if done is None else [done])

        def inner(x):
            with wait_for(outfeed.enqueue(heavy(x))):
                y = ready.repeat(2, lambda y: (y + 1.0, outfeed.enqueue(y)), [x + 1.0])
            return y

        def give(x):
            with wait_for(outfeed.enqueue(x)):
                return tf.identity(x)

        def net():
            with wait_for(outfeed.enqueue(heavy(0.0, 8))):  # 0
                x = ready.repeat(2, lambda x: inner(x), [tf.constant(1.0)])  # 1 to 6
            x = tf.cond(x > 0.0, lambda: give(x), lambda: x)  # 7
            return ready.repeat(2, lambda x: (x + 1.0, outfeed.enqueue(x)), [x + 1.0])

        assert only(ready.run(net)) == 10.0
        np.testing.assert_array_equal(ready.read(outfeed.dequeue()), np.arange(10.0))


@pytest.mark.parametrize(("style", "executor"), CASES)
def test_loops_that_share_only_a_queue_run_in_the_order_of_the_text(style, executor):
    """No value, variable or control dependency of the program orders them."""
    with entered(style, executor) as ready:
        infeed = ready.feed(numbers)
        outfeeds = [IPUOutfeedQueue() for _ in range(4)]
        weight = ready.variable(1.0, "weight")
        first, second, third, fourth = outfeeds

        def loop(outfeed):
            return ready.repeat(2, outfeed.enqueue, [], infeed)

        def branch():
            done = [each for each in (loop(second), loop(third)) if each is not None]
            with tf.control_dependencies(done):
                return infeed._dequeue()

        def net():
            done = [loop(first)]
            x = tf.cond(weight.read_value() > 0.0, branch, infeed._dequeue)
            done.append(loop(fourth))
            return [x, *(each for each in done if each is not None)]

        ready.run(net)
        results = [ready.read(each.dequeue()).tolist() for each in outfeeds]

    assert results == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [7.0, 8.0]]


def test_a_program_runs_without_those_before_it_in_its_graph():
    """Also where the executor runs what the fetched op needs."""
    with entered("graph", "tensorflow") as style:
        first, second = style.feed(numbers), style.feed(numbers)
        style.build(lambda: [first._dequeue()])
        program = style.build(lambda: [second._dequeue()])
        assert only(program()) == 0.0
        assert only(program()) == 1.0
        assert first.stats().elements == 0


def test_another_queue_shares_the_program():
    """The order is part of a program, and the number of a queue is none of it."""
    with entered("function", "xla") as style:
        run(style, sibling_loops)
        with compiled_modules() as modules:
            run(style, sibling_loops)
    assert len(modules) == 1  # lowered, and not compiled


def test_a_vectorized_map_over_a_queue_is_refused():
    """TensorFlow takes an element more than it returns; map_fn does not."""
    infeed, outfeed = IPUInfeedQueue(numbers()), IPUOutfeedQueue()
    assert infeed.initializer is None
    strategy = IPUStrategy()
    bodies = {
        "IpufeedDequeue": lambda x: x + infeed._dequeue(),
        "IpufeedEnqueue": lambda x: (outfeed.enqueue(x), x)[1],
    }
    for op, body in bodies.items():
        function = tf.function(
            lambda x, body=body: tf.vectorized_map(body, x), jit_compile=True
        )
        with (
            strategy.scope(),
            pytest.raises(ValueError, match=rf"\({op}\): .*tf\.map_fn"),
        ):
            strategy.run(function, [tf.zeros(3)])

    @tf.function(jit_compile=True)
    def mapped(x):
        return tf.map_fn(bodies["IpufeedDequeue"], x)

    with strategy.scope():
        taken = [list(strategy.run(mapped, [tf.zeros(3)]).numpy()) for _ in range(2)]
    assert taken == [[0, 1, 2], [3, 4, 5]]
    assert infeed.deleter is None
