"""Random programs that update variables and call queues, as lists of statements.

    program = statements(generator)
    run(program, Place(variables, counter, dequeue, enqueue))

A statement is a name and numbers of variables. The same program runs on an IPU, compiled,
and on the host, eagerly: all values are integers, so that the results are equal.
"""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

SHAPE = (6, 5)
VARIABLES = 4
TOO_LARGE = 1000  # an element that an assertion refuses
# With the number of variables that each takes.
UPDATES = {
    "scale": 1,
    "add": 2,
    "double": 2,
    "copy": 2,
    "swap": 2,
    "reverse": 1,
    "scatter": 1,
    "row": 1,
    "sum": 2,
    "product": 2,
    "data": 1,
    "count": 0,
    "spread": 1,
    "fill": 1,
}
CALLS = {"dequeue": 0, "enqueue": 1, "enqueue_sum": 1, "assert": 0}


@dataclass
class Place:
    """What a program works on.

    Attributes:
        variables: VARIABLES variables of int32 and of SHAPE.
        counter: A variable of int32, a number.
        dequeue: Gives the next element, of SHAPE.
        enqueue: Takes a tensor of SHAPE.
    """

    variables: list[Any]
    counter: Any
    dequeue: Any
    enqueue: Any


def statements(random):
    """Returns a random program, which begins with a dequeue in most cases."""
    names = random.choices(list(UPDATES), k=random.randint(2, 7))
    names += random.choices(list(CALLS), k=random.randint(0, 3))
    random.shuffle(names)
    names.insert(random.choice([0, 0, 0, len(names)]), "dequeue")
    return [
        (name, random.sample(range(VARIABLES), (UPDATES | CALLS)[name]))
        for name in names
    ]


def run(program, place):
    """Runs the statements in order."""
    element = tf.zeros(SHAPE, tf.int32)
    for name, numbers in program:
        chosen = [place.variables[number] for number in numbers]
        if name == "dequeue":
            element = place.dequeue()
        elif name == "enqueue":
            place.enqueue(chosen[0] + 0)
        elif name == "enqueue_sum":
            place.enqueue(tf.fill(SHAPE, tf.reduce_sum(chosen[0])))
        elif name == "assert":
            tf.debugging.assert_less(tf.reduce_max(element), TOO_LARGE)
        else:
            _update(name, chosen, place.counter, element)


def _update(name, chosen, counter, element):
    if name == "count":
        counter.assign_add(1)
        return
    first, second = chosen[0], chosen[-1]
    old = first + 0
    if name == "row":
        first[2].assign(element[0])
    elif name == "swap":
        first.assign(second + 0)
        second.assign(old)
    else:
        first.assign(_new_value(name, old, second, counter, element))


def _new_value(name, old, second, counter, element):
    if name == "scatter":
        return tf.tensor_scatter_nd_add(old, [[1], [4], [1]], element[:3])
    if name == "product":
        return old + tf.matmul(second, tf.ones([SHAPE[1], SHAPE[1]], tf.int32))
    return {
        "scale": lambda: old * 3 + 1,
        "add": lambda: old + second,
        "double": lambda: second * 2,
        "copy": lambda: second + 0,
        "reverse": lambda: tf.reverse(old, [0]),
        "sum": lambda: old + tf.reduce_sum(second),
        "data": lambda: old + element,
        "spread": lambda: old * counter,
        "fill": lambda: tf.fill(SHAPE, element[0, 0]),
    }[name]()
