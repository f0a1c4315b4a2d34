"""Loops in a loop, each with a queue of its own, and a loop that ends by a condition.

    repeat(3, outer)            takes 1 element of the first queue in each pass
      repeat(4, inner)          takes 4 elements of the second queue in each pass
    while_loop(below 100, ...)  takes as many as it needs, and the rest stays

Everything is one program. Prints

    1 * (1 + 2 + 3 + 4) = 10
    2 * (5 + 6 + 7 + 8) = 52
    3 * (9 + 10 + 11 + 12) = 126
    13 + 14 + 15 + 16 + 17 + 18 + 19 = 112
    the next element is 20
"""

import tensorflow as tf
from tensorflow.python.ipu import ipu_infeed_queue, ipu_outfeed_queue, loops
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_strategy import IPUStrategy

config = IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def make_numbers():
    return tf.data.Dataset.range(1, 1000).map(lambda n: tf.cast(n, tf.int32))


factors = ipu_infeed_queue.IPUInfeedQueue(make_numbers())
terms = ipu_infeed_queue.IPUInfeedQueue(make_numbers())
terms_seen = ipu_outfeed_queue.IPUOutfeedQueue()
products = ipu_outfeed_queue.IPUOutfeedQueue()
more_seen = ipu_outfeed_queue.IPUOutfeedQueue()


def inner(total, term):
    terms_seen.enqueue(term)
    return total + term


def outer(factor):
    total = loops.repeat(4, inner, [0], terms)
    products.enqueue({"factor": factor, "product": factor * total})


def add(total, term):
    more_seen.enqueue(term)
    return total + term


@tf.function(jit_compile=True)
def program():
    loops.repeat(3, outer, infeed_queue=factors)
    return loops.while_loop(lambda total: total < 100, add, [0], terms)


@tf.function(jit_compile=True)
def next_term():
    return terms._dequeue()


factors.initializer  # noqa: B018 - in eager mode to read it is to run it
terms.initializer  # noqa: B018

strategy = IPUStrategy()
with strategy.scope():
    total = strategy.run(program)
    following = strategy.run(next_term)


def sum_of(numbers):
    return " + ".join(map(str, numbers))


seen = terms_seen.dequeue().numpy().reshape(3, 4)
for row, result in zip(seen, products, strict=True):
    print(f"{result['factor'].numpy()} * ({sum_of(row)}) = {result['product'].numpy()}")
print(f"{sum_of(more_seen.dequeue().numpy())} = {total.numpy()}")
print(f"the next element is {following.numpy()}")
