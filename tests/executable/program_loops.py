"""Programs for tests of executables."""

import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import loops
from ipufeed.executable.store import counters
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue

v1 = tf.compat.v1
unique = iter(range(1, 10**6))


def stats():
    return counters.stats()


def loop(constant, mode=IPUOutfeedMode.ALL, elements=None, ipu=0):
    """A loop with own queues, of that IPU; gives a call, and its outfeed."""
    dataset = elements or tf.data.Dataset.from_tensors(tf.ones([4])).repeat()
    infeed = IPUInfeedQueue(dataset, device_ordinal=ipu)
    outfeed = IPUOutfeedQueue(outfeed_mode=mode, device_ordinal=ipu)
    _ = infeed.initializer

    def body(x, element):
        y = x + constant * tf.reduce_sum(element)
        return y, outfeed.enqueue(y)

    @tf.function(jit_compile=True)
    def program(n):
        return loops.repeat(n, body, [tf.zeros([2])], infeed)

    def run(n, ordinal=0):
        with tf.device(f"/device:IPU:{ordinal}"):
            return program(tf.constant(n)).numpy().tolist()

    return run, outfeed


def configured(connection, remote=True, **attributes):
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = connection
    config.device_connection.version = "ipu2"
    config.device_connection.enable_remote_buffers = remote
    for name, value in attributes.items():
        setattr(config, name, value)
    config.configure_ipu_system()
