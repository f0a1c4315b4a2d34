"""Programs that draw random numbers."""

import numpy as np
import tensorflow as tf

from ipufeed import _native
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.system import system


def configure(*num_ipus):
    config = IPUConfig()
    config.auto_select_ipus = list(num_ipus)
    system.configure_ipu_system(config)


def splitmix(z):
    """One step, by the book."""
    z = (z + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def seed_of(seed, *numbers):
    """The chain over run, replica, op and execution, as two int32."""
    key = splitmix(seed % 2**64)
    for number in numbers:
        key = splitmix(key ^ number % 2**64)
    return np.array([key], np.uint64).view(np.int32).tolist()


def raw_seed(o=0):
    """The op that draws a seed."""
    return _native.load().ipufeed_seed(tf.zeros([2], tf.int32), o=o)


def different(values):
    """Whether no two rows are equal."""
    rows = [np.asarray(each).tobytes() for each in values]
    return len(set(rows)) == len(rows)
