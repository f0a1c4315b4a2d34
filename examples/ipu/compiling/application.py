"""A program in a file: trained and compiled in one process, called in another.

Without options it trains, compiles to a file, and runs itself with --serve FILE, which
starts the file and calls it from four threads. It prints

    compiled to line.poplar_exec
    takes float32 [1]
    f(0) = 1.0
    f(1) = 4.0
    ...
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

parser = argparse.ArgumentParser()
parser.add_argument("--serve", metavar="FILE")
options = parser.parse_args()

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()


def serve(path):
    """Calls the program of a file; there is no model in this process."""
    context = ipu.embedded_runtime.embedded_runtime_start(path, [], "line")
    (taken,) = context.signature().streamed_inputs
    print("takes", taken.shape.element_type, list(taken.shape.dimensions))

    def call(x):
        (y,) = ipu.embedded_runtime.embedded_runtime_call([np.float32([x])], context)
        return float(y[0])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for x, y in zip(range(5), pool.map(call, range(5)), strict=True):
            print(f"f({x}) = {y:.1f}")


def train():
    """Learns y = 3 x + 1; gives the variables."""
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        slope, offset = tf.Variable(0.0, name="slope"), tf.Variable(0.0, name="offset")

    @tf.function(jit_compile=True)
    def steps():
        x = tf.range(-2.0, 2.0, 0.5)
        for _ in tf.range(200):
            error = slope * x + offset - (3.0 * x + 1.0)
            slope.assign_sub(0.2 * tf.reduce_mean(error * x))
            offset.assign_sub(0.2 * tf.reduce_mean(error))

    strategy.run(steps)
    return slope, offset


def compile_to_file(slope, offset, path):
    """The trained function, in a loop between two queues."""
    elements = tf.data.Dataset.from_tensors(tf.zeros([1])).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(elements)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def line():
        def body(x):
            return outfeed.enqueue(slope * x + offset)

        return ipu.loops.repeat(100, body, [], infeed)

    ipu.application_compile_op.experimental_application_compile_op(
        line, output_path=path, freeze_variables=True
    )


if options.serve:
    serve(options.serve)
else:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "line.poplar_exec")
        compile_to_file(*train(), path)
        print("compiled to", os.path.basename(path), flush=True)
        subprocess.run(
            [sys.executable, "-m", "ipufeed.run", __file__, "--serve", path], check=True
        )
