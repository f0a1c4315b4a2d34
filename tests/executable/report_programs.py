"""Programs that the tests of reports compile, and read without compiling."""

import itertools

import tensorflow as tf
from tensorflow.compiler.xla.service import hlo_pb2

from ipufeed.executable.hlo.hlo import Module

COUNT = itertools.count(1)


def lowered(function, *arguments):
    """What TensorFlow makes of a function, before XLA's optimisations."""
    ir = tf.function(function, jit_compile=True).experimental_get_compiler_ir(
        *arguments
    )
    return hlo_pb2.HloModuleProto.FromString(ir(stage="hlo_serialized"))


def module(function, *arguments):
    """The same, to read."""
    return Module.of(lowered(function, *arguments))


def on_ipu(function, *arguments):
    """Runs a function as one program on an IPU; one without a name gets one of its own."""
    if function.__name__ == "<lambda>":
        function.__name__ = "unnamed_" + "n" * next(COUNT)  # a number would be cut off
    with tf.device("/device:IPU:0"):
        return tf.function(function, jit_compile=True)(*arguments)
