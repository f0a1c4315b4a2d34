"""Where is the bottleneck? The same program on three kinds of data.

    host data       elements are decoded on the host: the whole way, as in training
    host-generated  elements lie ready on the host: without the dataset's work
    synthetic       no element is moved: the device alone

Close rates mean that the step before the closer one costs nothing. Here the dataset is slow
on purpose. The flag is read once for a process, hence three child processes. Prints

    host data: ... steps/s
    host-generated: ... steps/s
    synthetic: ... steps/s
    bottleneck: the dataset
"""

import os
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

STEPS = 100
CASES = {"host data": "", "host-generated": "", "synthetic": "--use_synthetic_data"}


def decode(i):
    time.sleep(0.005)
    return np.full([16, 64], i, np.float32)


def make_dataset(case):
    if case != "host data":
        return tf.data.Dataset.from_tensors(tf.ones([16, 64])).repeat()
    dataset = tf.data.Dataset.range(16).repeat()
    return dataset.map(
        lambda i: tf.ensure_shape(tf.numpy_function(decode, [i], tf.float32), [16, 64])
    )


def measure(case):
    """Steps per second of a small program on this kind of data."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.ones([64, 64]) / 64)

        @tf.function(jit_compile=True)
        def run_steps(iterator):
            total = 0.0
            for _ in tf.range(STEPS):
                total += tf.reduce_mean(next(iterator) @ weights)
            return total

        iterator = iter(make_dataset(case))
        strategy.run(run_steps, args=[iterator])  # compiles
        start = time.perf_counter()
        strategy.run(run_steps, args=[iterator])
        return STEPS / (time.perf_counter() - start)


def measure_in_child(case, flags):
    done = subprocess.run(
        [sys.executable, "-m", "ipufeed.run", __file__, case],
        env={**os.environ, "TF_POPLAR_FLAGS": flags},
        stdout=subprocess.PIPE,
        check=True,
    )
    return float(done.stdout)


def main():
    rates = {}
    for case, flags in CASES.items():
        rates[case] = measure_in_child(case, flags)
        print(f"{case}: {rates[case]:.0f} steps/s", flush=True)
    if rates["host data"] < rates["host-generated"] / 2:
        print("bottleneck: the dataset")
    elif rates["host-generated"] < rates["synthetic"] / 2:
        print("bottleneck: the way to the device")
    else:
        print("bottleneck: the device")


if len(sys.argv) > 1:
    print(measure(sys.argv[1]))
else:
    main()
