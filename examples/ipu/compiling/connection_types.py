"""When an IPU is attached to, for the connection type that the command line names.

    python -m ipufeed.run examples/ipu/compiling/connection_types.py ON_DEMAND

    ALWAYS       attached to when configured (the default)
    ON_DEMAND    attached to when the first program runs
    PRE_COMPILE  never: the program is compiled and saved, and gives zeros
    NEVER        never: the program is compiled, and running it is an error

Among the lines that log the attachment and the compilation it prints

    configured
    result [3. 8.]
    1 compiled

Under PRE_COMPILE the result is [0. 0.], and under NEVER there is an error in its place.
"""

import argparse
import os

import tensorflow as tf
from tensorflow.python import ipu

import ipufeed.executable

TYPES = ipu.config.DeviceConnectionType

parser = argparse.ArgumentParser()
parser.add_argument(
    "type", nargs="?", default="ALWAYS", choices=[each.name for each in TYPES]
)
connection = TYPES[parser.parse_args().type]

# What is pre-compiled is for a file.
flags = os.environ.get("TF_POPLAR_FLAGS", "")
if connection is TYPES.PRE_COMPILE and "--executable_cache_path" not in flags:
    os.environ["TF_POPLAR_FLAGS"] = f"{flags} --executable_cache_path=executables"

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.device_connection.type = connection
if connection in (TYPES.PRE_COMPILE, TYPES.NEVER):
    # No device exists that could be asked what it is.
    config.device_connection.version = "ipu2"
    config.device_connection.enable_remote_buffers = True
config.configure_ipu_system()
print("configured", flush=True)


@tf.function(jit_compile=True)
def add(a, b):
    return a + b


# Made on the host: where nothing may run, not even a constant is put on an IPU.
a, b = tf.constant([1.0, 3.0]), tf.constant([2.0, 5.0])
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    try:
        print("result", strategy.run(add, [a, b]).numpy())
    except tf.errors.InvalidArgumentError as error:
        print("error", error.message)
print(ipufeed.executable.stats().compiles, "compiled")
