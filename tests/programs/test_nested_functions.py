"""Queue calls of functions that call functions, without jit_compile: in order, compiled."""

import pytest
import tensorflow as tf

import ipufeed
from ipufeed.executable.store import counters
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")

ORDERS = ("nest loop", "loop nest", "nest nest", "loop nest loop", "deep loop", "loop")


class Program:
    """Loops of three iterations that hand elements on, each with a factor of its own."""

    def __init__(self, prints):
        data = tf.data.Dataset.range(10**6).map(lambda i: tf.cast(i, tf.float32))
        self.infeed, self.outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()
        _ = self.infeed.initializer
        self.nest = tf.function(lambda: self.loop(10.0, prints))
        self.deep = tf.function(lambda: self.nest())

    def loop(self, factor=1.0, prints=None):
        def body(x):
            if prints == "inside":
                tf.print("element", x)
            return self.outfeed.enqueue(x * factor)

        if prints == "before":
            tf.print("loop")
        ipufeed.loops.repeat(3, body, [], self.infeed)

    def run(self, order):
        @tf.function
        def program():
            for step in order.split():
                getattr(self, step)()

        strategy = ipufeed.IPUStrategy()
        with strategy.scope():
            strategy.run(program)
            strategy.run(program)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("prints", [None, "before", "inside"])
def test_elements_are_taken_in_the_order_of_the_calls(order, prints, capfd):
    """Also where a function that is called holds what cannot be compiled."""
    program = Program(prints)
    program.run(order)
    found = program.outfeed.dequeue().numpy().tolist()

    steps = order.split() * 2
    factors = [1.0 if step == "loop" else 10.0 for step in steps for _ in range(3)]
    assert found == [i * factor for i, factor in enumerate(factors)]
    nested = sum(step != "loop" for step in steps)
    text = capfd.readouterr().err
    assert text.count("element") == (3 * nested if prints == "inside" else 0)


@pytest.mark.parametrize("order", ORDERS)
def test_each_loop_is_in_a_compiled_program(order, caplog):
    """Whichever function it is in; those that stand next to each other are in one."""
    program = Program(None)
    before = counters.stats().compiles
    program.run(order)
    new = counters.stats().compiles - before

    assert 1 <= new <= len(order.split())
    if order in ("nest loop", "deep loop", "loop"):
        assert new == 1
    assert "cannot be compiled" not in caplog.text
