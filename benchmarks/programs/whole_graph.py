"""A version 1 graph of some hundred operations, with and without compile; prints JSON.

    python -m benchmarks.programs.whole_graph RUNS

One process and one machine for both: a run of the one, a run of the other. The first runs,
which compile, are counted apart.
"""

import json
import sys
import time
from typing import Any

FEATURES, UNITS, LAYERS, BATCH = 64, 64, 4, 32


def network(x: Any, y: Any) -> Any:
    """Returns a training step of an MLP: its loss and the op that updates it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    for layer in range(LAYERS):
        weights = v1.get_variable(f"weights{layer}", [x.shape[1], UNITS])
        biases = v1.get_variable(f"biases{layer}", [UNITS])
        x = tf.nn.relu(tf.matmul(x, weights) + biases)
    loss = tf.reduce_mean(tf.square(x - y))
    return loss, v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss)


def main() -> None:
    import numpy as np
    import tensorflow as tf

    import ipufeed as ipu

    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("cpu"):
            x = v1.placeholder(tf.float32, [BATCH, FEATURES])
            y = v1.placeholder(tf.float32, [BATCH, UNITS])
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            with v1.variable_scope("plain"):
                plain = network(x, y)
                operations = len(graph.get_operations())
            with v1.variable_scope("compiled"):
                compiled = ipu.ipu_compiler.compile(network, [x, y])
        random = np.random.default_rng(1)
        feeds = {
            x: random.normal(size=[BATCH, FEATURES]),
            y: random.normal(size=[BATCH, UNITS]),
        }
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            before = ipu.executable.stats().compiles
            session.run(plain, feeds)
            compiles = ipu.executable.stats().compiles - before
            session.run(compiled, feeds)
            seconds: dict[str, list[float]] = {"plain": [], "compiled": []}
            for _ in range(int(sys.argv[1])):
                for name, fetches in (("plain", plain), ("compiled", compiled)):
                    start = time.perf_counter()
                    session.run(fetches, feeds)
                    seconds[name].append(time.perf_counter() - start)
    print(json.dumps({"operations": operations, "compiles": compiles, **seconds}))


if __name__ == "__main__":
    main()
