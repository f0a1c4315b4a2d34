"""A small model in stages, and the same unsplit: what a pipeline must be equal to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1

WIDTH, BATCH = 6, 2


def data(elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of `elements` mini-batches."""
    shape = (elements, BATCH, WIDTH)
    return tuple(
        np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        for seed in (3, 4)
    )


def weights(layers: int) -> list[np.ndarray]:
    """Returns the first values of each layer's weights."""
    random = np.random.default_rng(5)
    return [
        (random.standard_normal((WIDTH, WIDTH)) * 0.4).astype(np.float32)
        for _ in range(layers)
    ]


def loss_of(x: Any, y: Any) -> Any:
    return tf.reduce_mean(tf.square(x - y))


@dataclass
class Trained:
    """Losses of all mini-batches in order, and the weights after the last."""

    losses: np.ndarray
    weights: list[np.ndarray]


def unsplit(
    make_optimizer: Callable[[], Any],
    layers: int,
    count: int,
    executions: int,
    replicas: int = 1,
) -> Trained:
    """Trains the model op by op on the CPU, adding up the gradients of `count` batches.

    Of that many for each replica, whose sums are then averaged.
    """
    count *= replicas
    xs, ys = data(count * executions)
    with tf.device("cpu"):
        variables = [tf.Variable(each) for each in weights(layers)]
        optimizer = make_optimizer()
        losses = []
        for execution in range(executions):
            total = [tf.zeros_like(each) for each in variables]
            for number in range(execution * count, (execution + 1) * count):
                with tf.GradientTape() as tape:
                    x = tf.constant(xs[number])
                    for variable in variables:
                        x = tf.tanh(x @ variable)
                    loss = loss_of(x, ys[number])
                losses.append(loss.numpy())
                gradients = tape.gradient(loss, variables)
                total = [a + b for a, b in zip(total, gradients, strict=True)]
            total = [each / replicas for each in total]
            optimizer.apply_gradients(list(zip(total, variables, strict=True)))
        return Trained(np.array(losses), [each.numpy() for each in variables])


def assert_equal(trained: Trained, expected: Trained) -> None:
    """Losses and weights to 1e-5 of the largest."""
    scale = np.abs(expected.losses).max()
    np.testing.assert_allclose(trained.losses, expected.losses, atol=1e-5 * scale)
    for one, other in zip(trained.weights, expected.weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(other).max())


class Pipelined:
    """The same as a pipeline, in a tf.function; each layer is a stage.

    Args:
        make_optimizer: Makes an optimizer of TensorFlow 1 or Keras.
        layers: Stages.
        shard: The number of parts of the mini-batches, and the number of this part.
        made_inside: Whether the optimizer is made while the program is traced.
        arguments: The arguments of `pipeline`.
    """

    def __init__(
        self,
        make_optimizer: Callable[[], Any],
        layers: int,
        count: int,
        shard: tuple[int, int] = (1, 0),
        made_inside: bool = False,
        **arguments: Any,
    ) -> None:
        self.strategy = IPUStrategy()
        self.count = count
        xs, ys = data(1000)
        dataset = tf.data.Dataset.from_tensor_slices((xs, ys)).shard(*shard)
        self.infeed = IPUInfeedQueue(dataset)
        self.outfeed = IPUOutfeedQueue()
        _ = self.infeed.initializer
        with self.strategy.scope():
            self.variables = [tf.Variable(each) for each in weights(layers)]
            optimizer = make_optimizer()
        keras = not isinstance(optimizer, v1.train.Optimizer)
        more = {"variables": self.variables} if keras else {}

        def stage(number: int) -> Callable[..., Any]:
            def run(x: Any, y: Any) -> Any:
                x = tf.tanh(x @ self.variables[number])
                return loss_of(x, y) if number == layers - 1 else (x, y)

            return run

        @tf.function(jit_compile=True)
        def program(*counts: Any) -> Any:
            return pipeline(
                [stage(number) for number in range(layers)],
                *(counts or [count]),
                infeed_queue=self.infeed,
                outfeed_queue=self.outfeed,
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    make_optimizer() if made_inside else optimizer, loss, **more
                ),
                **arguments,
            )

        self.program = program

    def train(self, *counts: int) -> Trained:
        """Runs the program once; its losses, and the weights after it.

        With a count, that is an input of the program.
        """
        self.strategy.run(self.program, [tf.constant(each) for each in counts])
        return Trained(
            np.reshape(alone(self.outfeed.dequeue()).numpy(), -1),
            [each.numpy() for each in self.variables],
        )


def alone(outputs: Any) -> Any:
    """Returns the one output of a last stage, which training and sums put into a list."""
    is_one = isinstance(outputs, list) and len(outputs) == 1
    return outputs[0] if is_one else outputs
