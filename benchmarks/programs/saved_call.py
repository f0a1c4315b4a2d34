"""What a call of a program in a file costs, where it was compiled and elsewhere.

    python -m benchmarks.programs.saved_call compile|call FILE CALLS

Prints a JSON object: the median time of a call in microseconds, and how many programs the
process has compiled. `compile` compiles the file first, and calls it in the same process.
"""

import json
import statistics
import sys
import time

import numpy as np
import tensorflow as tf

import ipufeed as ipu

HIDDEN = 256


def compile_to(path: str) -> None:
    """Compiles an MLP in a loop between two queues to a file."""
    random = np.random.default_rng(1)
    shapes = [(784, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 10)]
    weights = [
        tf.Variable(random.normal(size=shape).astype(np.float32) / 16)
        for shape in shapes
    ]
    elements = tf.data.Dataset.from_tensors(tf.zeros([1, 784])).repeat()
    infeed = ipu.IPUInfeedQueue(elements)
    outfeed = ipu.IPUOutfeedQueue()

    def body(x):
        for each in weights[:-1]:
            x = tf.nn.relu(x @ each)
        return outfeed.enqueue(x @ weights[-1])

    ipu.application_compile_op.experimental_application_compile_op(
        lambda: ipu.loops.repeat(1000, body, [], infeed),
        output_path=path,
        freeze_variables=True,
    )


def main(mode: str, path: str, calls: int) -> None:
    config = ipu.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    if mode == "compile":
        compile_to(path)
    context = ipu.embedded_runtime.embedded_runtime_start(path, [], "mlp")
    x = np.ones([1, 784], np.float32)
    times = []
    for _ in range(calls + 50):  # the first ones warm up
        start = time.perf_counter()
        ipu.embedded_runtime.embedded_runtime_call([x], context)
        times.append(time.perf_counter() - start)
    found = {
        "us": statistics.median(times[50:]) * 1e6,
        "compiles": ipu.executable.stats().compiles,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
