"""Programs are compiled where no IPU is, and run later where one is.

A multilayer perceptron is trained for some steps. With PRE_COMPILE that compiles its
program and saves it, and every result is zero. Run again with --connected: the file is
read, nothing is compiled, and the network learns.

    python -m ipufeed.run examples/ipu/compiling/precompile.py
    python -m ipufeed.run examples/ipu/compiling/precompile.py --connected

--old-api configures with `create_ipu_config` and `set_ipu_connection_type`. Files go to
./executables unless TF_POPLAR_FLAGS names a folder. Logs

    A pre-compiled Poplar program has been saved to executables/....poplar_exec

and prints

    losses 0.000 0.000 0.000
    1 compiled, 1 saved, 0 read

and then, connected, losses that fall, and

    0 compiled, 0 saved, 1 read
"""

import argparse
import os

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

import ipufeed.executable

STEPS = 50
CALLS = 3


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--connected", action="store_true", help="to an IPU: run")
    parser.add_argument("--old-api", action="store_true")
    return parser.parse_args()


def cache():
    flags = os.environ.get("TF_POPLAR_FLAGS", "")
    if "--executable_cache_path" not in flags:
        os.environ["TF_POPLAR_FLAGS"] = f"{flags} --executable_cache_path=executables"


def connection(options):
    kinds = ipu.utils.DeviceConnectionType
    return kinds.ALWAYS if options.connected else kinds.PRE_COMPILE


def configure(options):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = connection(options)
    config.device_connection.version = "ipu2"
    config.device_connection.enable_remote_buffers = True
    config.configure_ipu_system()


def configure_old(options):
    config = ipu.utils.create_ipu_config()
    config = ipu.utils.auto_select_ipus(config, 1)
    config = ipu.utils.set_ipu_connection_type(
        config, connection(options), ipu_version=2, enable_remote_buffers=True
    )
    ipu.utils.configure_ipu_system(config)


def make_dataset():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 8)).astype(np.float32)
    y = np.tanh(x[:, :1] - x[:, 1:2])
    return tf.data.Dataset.from_tensors((x, y)).repeat()


def make_weights(*shape):
    initial = np.random.default_rng(1).normal(size=shape, scale=shape[0] ** -0.5)
    return tf.Variable(initial.astype(np.float32))


def train():
    """The loss after each call."""
    layers = [make_weights(8, 16), make_weights(16, 1)]

    @tf.function(jit_compile=True)
    def run_steps(iterator):
        loss = 0.0
        for _ in tf.range(STEPS):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                guess = tf.tanh(x @ layers[0]) @ layers[1]
                loss = tf.reduce_mean(tf.square(guess - y))
            for layer, slope in zip(layers, tape.gradient(loss, layers), strict=True):
                layer.assign_sub(0.1 * slope)
        return loss

    iterator = iter(make_dataset())
    return [float(strategy.run(run_steps, [iterator])) for _ in range(CALLS)]


options = parse()
cache()
if options.old_api:
    configure_old(options)
else:
    configure(options)
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    losses = train()
stats = ipufeed.executable.stats()
print("losses", *(f"{loss:.3f}" for loss in losses))
print(f"{stats.compiles} compiled, {stats.saved} saved, {stats.disk_hits} read")
