"""Results as a stream: each one as soon as it is there, with no polling.

This is ours, and not in the original, where a thread has to ask again and again.
`stream` sleeps until a result comes, and ends with the program; `timeout_s` bounds the wait
for the next result, so that a device that hangs is an error and no silence. Prints

    {'step': 0, 'square': 0.0}
    ...
    {'step': 19, 'square': 361.0}
    20 results
"""

import threading

import tensorflow as tf
from tensorflow.python import ipu

STEPS = 20

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

dataset = tf.data.Dataset.range(STEPS).map(lambda i: tf.cast(i, tf.int32))
outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()


@tf.function(jit_compile=True)
def run_steps(iterator):
    for _ in tf.range(STEPS):
        step = next(iterator)
        outfeed_queue.enqueue({"step": step, "square": tf.cast(step, tf.float32) ** 2})


def print_results():
    count = 0
    # Begun before the program: the stream waits for it.
    for result in outfeed_queue.stream(timeout_s=60.0):
        print({name: value.numpy().item() for name, value in result.items()})
        count += 1
    print(f"{count} results")


reader = threading.Thread(target=print_results)
reader.start()
with strategy.scope():
    strategy.run(run_steps, args=[iter(dataset)])
reader.join()
