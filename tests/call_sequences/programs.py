"""The datasets and the programs of sequences: few kinds, so that they are compiled once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import tensorflow as tf

from call_sequences.model import InfeedModel, Signature, packed
from ipufeed.device.program import loops

COUNT = tf.TensorSpec([], tf.int32)
WAIT_S = 60.0  # at a gate; only a hang gets there


def counting(model: InfeedModel, gate: threading.Event | None) -> Any:
    """The dataset of the model; it waits at the gate before element `gated_at`."""
    values = np.arange(model.first, model.first + model.size, dtype=np.float64)
    shaped = values.reshape(-1, *[1] * len(model.shape))
    array = np.broadcast_to(shaped, (model.size, *model.shape)).astype(model.dtype)
    if gate is None:
        dataset = tf.data.Dataset.from_tensor_slices(array)
    else:

        def elements() -> Any:
            for i, element in enumerate(array):
                if i == model.gated_at:
                    gate.wait(WAIT_S)
                yield element

        spec = tf.TensorSpec(model.shape, model.dtype)
        dataset = tf.data.Dataset.from_generator(elements, output_signature=spec)
    if model.fails:  # at its end
        size = model.size + 1
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(size))
    return dataset


def traced(
    infeed: Any, outfeed: Any, fuse: Any, signature: Signature, twice: bool
) -> Any:
    """A function of the iterations of one loop, or of two."""

    def loop(count: Any, offset: float) -> None:
        def enqueue(value: Any) -> None:
            value = value + tf.cast(offset, value.dtype)
            if signature.count == 1:
                outfeed.enqueue(value)
            else:
                flat = [value, value + tf.ones_like(value)]
                outfeed.enqueue(packed(signature.structure, flat))

        def with_element(element: Any) -> None:
            if fuse is not None:
                fuse._dequeue()
            enqueue(element)

        def with_number(number: Any) -> Any:
            if fuse is not None:
                fuse._dequeue()
            enqueue(tf.fill(signature.shape, tf.cast(number, signature.dtype)))
            return number + 1

        if infeed is None:
            loops.repeat(count, with_number, [0])
        else:
            loops.repeat(count, with_element, [], infeed)

    if twice:

        @tf.function(jit_compile=True, autograph=False, input_signature=[COUNT, COUNT])
        def two_loops(first: Any, second: Any) -> None:
            loop(first, 0.0)
            loop(second, 1000.0)

        return two_loops

    @tf.function(jit_compile=True, autograph=False, input_signature=[COUNT])
    def one_loop(count: Any) -> None:
        loop(count, 0.0)

    return one_loop
