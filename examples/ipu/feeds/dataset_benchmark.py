"""How fast is a dataset? The same measurement in a session and eagerly.

Ten epochs of 512 elements are read as the device would read them, with no device. The
result is JSON in a tensor of one string. Prints for each way

    session: 10 epochs of 512 elements, 2097152 bytes
    fields: bandwidth elements_per_second elements_processed time_elapsed ...
    median ... elements/s

and the same for "eager".

`python -m ipufeed.benchmark FILE` does more of this with no program to write.
"""

import json
import statistics

import tensorflow as tf
from tensorflow.python import ipu

EPOCHS = 10
ELEMENTS = 512


def make_dataset():
    dataset = tf.data.Dataset.from_tensors(tf.ones([32, 32]))
    return dataset.map(lambda image: image / 255.0).repeat()


def report(name, result):
    epochs = json.loads(result)["epochs"]
    rates = [epoch["elements_per_second"] for epoch in epochs[2:]]  # two to warm up
    elements = epochs[0]["elements_processed"]
    size = epochs[0]["total_bytes_processed"]
    print(f"{name}: {len(epochs)} epochs of {elements:.0f} elements, {size:.0f} bytes")
    print("fields:", *sorted(epochs[0]))
    print(f"median {statistics.median(rates):.0f} elements/s")


with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    benchmark = ipu.dataset_benchmark.dataset_benchmark(
        make_dataset(), EPOCHS, ELEMENTS, print_stats=False
    )
    report("session", session.run(benchmark)[0])

result = ipu.dataset_benchmark.dataset_benchmark(
    make_dataset(), EPOCHS, ELEMENTS, print_stats=False
)
report("eager", result.numpy()[0].decode())
