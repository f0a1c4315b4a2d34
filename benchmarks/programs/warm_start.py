"""The start of a training loop, in a process of its own; prints seconds as JSON.

    python -m benchmarks.programs.warm_start mlp|resnet FOLDER

FOLDER is the executable cache: the first process to start compiles, the next ones load.
The first call runs no iteration, after TensorFlow has traced the loop: what it takes is
lowering, the key, and compiling or loading.
"""

import gc
import itertools
import json
import os
import sys
import time
from typing import Any

BATCH = 16


def mlp() -> tuple[Any, Any]:
    """Returns an MLP of 784-256-256-10 units: the shape of its input, its forward pass."""
    import tensorflow as tf

    sizes = [784, 256, 256, 10]
    layers = [
        (tf.Variable(0.05 * tf.random.normal([i, o])), tf.Variable(tf.zeros([o])))
        for i, o in itertools.pairwise(sizes)
    ]

    def forward(x: Any) -> Any:
        for weight, bias in layers[:-1]:
            x = tf.nn.relu(x @ weight + bias)
        weight, bias = layers[-1]
        return x @ weight + bias

    return [784], forward


def resnet() -> tuple[Any, Any]:
    """Returns a ResNet of 13 convolutions: the shape of its input, its forward pass.

    It has six residual blocks, two of which project.
    """
    import tensorflow as tf

    def kernel(*shape: int) -> Any:
        return tf.Variable(0.05 * tf.random.normal(shape))

    def normalised(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        return (x - mean) * tf.math.rsqrt(variance + 1e-3)

    first, last = kernel(3, 3, 3, 16), kernel(64, 10)
    blocks = []
    for inside, outside, stride in (
        (16, 16, 1),
        (16, 16, 1),
        (16, 32, 2),
        (32, 32, 1),
        (32, 64, 2),
        (64, 64, 1),
    ):
        project = kernel(1, 1, inside, outside) if inside != outside else None
        pair = kernel(3, 3, inside, outside), kernel(3, 3, outside, outside)
        blocks.append((*pair, project, stride))

    def forward(x: Any) -> Any:
        x = tf.nn.relu(normalised(tf.nn.conv2d(x, first, 1, "SAME")))
        for one, other, project, stride in blocks:
            y = tf.nn.relu(normalised(tf.nn.conv2d(x, one, stride, "SAME")))
            y = normalised(tf.nn.conv2d(y, other, 1, "SAME"))
            past = x if project is None else tf.nn.conv2d(x, project, stride, "SAME")
            x = tf.nn.relu(y + past)
        return tf.reduce_mean(x, [1, 2]) @ last

    return [16, 16, 3], forward


def main() -> None:
    """Starts the loop once, and prints its times."""
    model, folder = sys.argv[1:]
    os.environ["TF_POPLAR_FLAGS"] = f"--executable_cache_path={folder}"

    import tensorflow as tf

    import ipufeed
    from benchmarks import feeds
    from ipufeed.device.program import loops
    from ipufeed.queues import IPUOutfeedQueue

    outfeed = IPUOutfeedQueue()
    with tf.device("/device:IPU:0"):
        shape, forward = {"mlp": mlp, "resnet": resnet}[model]()
        element = tf.zeros([BATCH, *shape]), tf.zeros([BATCH], tf.int32)
        infeed = feeds.infeed(feeds.source(element))

        def body(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, forward(x))
                loss = tf.reduce_mean(losses)
            variables = tape.watched_variables()
            slopes = tape.gradient(loss, variables)
            for variable, slope in zip(variables, slopes, strict=True):
                variable.assign_sub(0.01 * slope)
            return outfeed.enqueue(loss)

        @tf.function(jit_compile=True, autograph=False)
        def train(n: Any) -> Any:
            return loops.repeat(n, body, [], infeed)

        none = tf.constant(0)
        train.get_concrete_function(none)
        # A collection of all objects, TensorFlow's among them, takes longer than a warm
        # start: without this one it falls into some starts and not into others.
        gc.collect()
        before = ipufeed.executable.stats()
        seconds = feeds.seconds(lambda: train(none))
        after = ipufeed.executable.stats()
    print(
        json.dumps(
            {
                "seconds": seconds,
                "compiles": after.compiles - before.compiles,
                "disk_hits": after.disk_hits - before.disk_hits,
                "compile_seconds": after.compile_seconds - before.compile_seconds,
                "read_seconds": after.read_seconds - before.read_seconds,
                "key_seconds": after.key_seconds - before.key_seconds,
                "time": time.time(),
            }
        )
    )


if __name__ == "__main__":
    main()
