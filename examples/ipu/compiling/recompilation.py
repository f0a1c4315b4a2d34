"""What compiles a TensorFlow 1 program again, counted; and three ways not to.

The same network is run three times each with equal values, with changed constants, with
changed weights, and with changed batch sizes. Each of these has a switch against it, as an
option or as a variable of the environment (CACHING=1 PLACEHOLDER=1 SAMEBATCH=1):

    --placeholder  constants and weights are fed: they are not a part of the program
    --samebatch    every batch is padded to one size
    --caching      programs are kept as files, in ./ipu_cache unless TF_POPLAR_FLAGS names
                   a folder; a second process only reads them

Prints, without a switch

    equal values: 1 compiled, 0 read, 1 loaded
    changed constants: 3 compiled, 0 read, 3 loaded
    changed weights: 3 compiled, 0 read, 3 loaded
    changed batch sizes: 3 compiled, 0 read, 3 loaded
"""

import argparse
import os

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

import ipufeed.executable

BATCH = 32
WIDTH = 16


def parse():
    parser = argparse.ArgumentParser()
    for name in ("caching", "placeholder", "samebatch"):
        on = os.environ.get(name.upper(), "0") not in ("", "0")
        parser.add_argument(f"--{name}", action="store_true", default=on)
    return parser.parse_args()


def cache():
    """Programs are kept as files from here on: flags are read by configure_ipu_system."""
    flags = os.environ.get("TF_POPLAR_FLAGS", "")
    if "--executable_cache_path" not in flags:
        os.environ["TF_POPLAR_FLAGS"] = f"{flags} --executable_cache_path=ipu_cache"


def network(x, scale, weights):
    return tf.reduce_mean(tf.tanh(tf.matmul(x, weights)) * scale)


def compiled(net, inputs):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        (mean,) = ipu.ipu_compiler.compile(net, inputs)
    return mean


def place(*shape):
    with tf.device("cpu"):
        return tf.placeholder(np.float32, shape)


class Baked:
    """Values are written into the graph: others need another graph, and a program."""

    def run(self, session, batch, scale, weights):
        x = place(*batch.shape)

        def frozen(x):
            return network(x, scale, weights)

        return session.run(compiled(frozen, [x]), {x: batch})


class Fed:
    """Values are fed: one graph for each batch size does for all of them."""

    def __init__(self):
        self.graphs = {}

    def run(self, session, batch, scale, weights):
        if batch.shape not in self.graphs:
            inputs = [place(*batch.shape), place(), place(*weights.shape)]
            self.graphs[batch.shape] = inputs, compiled(network, inputs)
        inputs, mean = self.graphs[batch.shape]
        values = [batch, scale, weights]
        return session.run(mean, dict(zip(inputs, values, strict=True)))


def make_batch(rows, same):
    batch = np.ones([rows, WIDTH], np.float32)
    return np.pad(batch, [(0, BATCH - rows), (0, 0)]) if same else batch


def main():
    options = parse()
    tf.disable_v2_behavior()
    if options.caching:
        cache()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    batch = make_batch(BATCH, same=True)
    weights = np.eye(WIDTH, dtype=np.float32)
    variants = {
        "equal values": [(batch, 1.0, weights)] * 3,
        "changed constants": [(batch, scale, weights) for scale in (0.5, 0.25, 0.125)],
        "changed weights": [(batch, 1.0, n * weights) for n in (2, 3, 4)],
        "changed batch sizes": [
            (make_batch(rows, options.samebatch), 1.0, weights) for rows in (7, 13, 31)
        ],
    }
    way = Fed() if options.placeholder else Baked()
    with tf.Session() as session:  # one for all: sessions would share the device
        for name, cases in variants.items():
            ipufeed.executable.reset_stats()
            for case in cases:
                way.run(session, *case)
            stats = ipufeed.executable.stats()
            print(
                f"{name}: {stats.compiles} compiled, {stats.disk_hits} read, "
                f"{stats.loads} loaded"
            )


main()
