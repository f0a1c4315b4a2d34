"""Writes real files for the fuzzers to start from: `python tools/fuzz_corpus.py FOLDER`.

result.json             a result of the benchmark, with stages
program.poplar_exec     an executable from the cache
program.hlo             the program inside it; executable.bin: what XLA made of it
lowered-N.hlo           programs as TensorFlow lowers them
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DATASET = """import tensorflow as tf

dataset = tf.data.Dataset.range(1000).map(lambda x: tf.cast(x, tf.float32) * 2).batch(10)
"""


def write_result(folder: Path) -> None:
    """Runs the benchmark as a user does."""
    dataset = folder / "dataset.py"
    dataset.write_text(DATASET)
    command = [sys.executable, "-m", "ipufeed.benchmark", str(dataset), "--quiet"]
    command += ["--seconds", "2", "--json", str(folder / "result.json")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)


def write_programs(folder: Path) -> None:
    """Compiles a loop with a queue, a collective of constants, and some small programs."""
    cache = folder / "cache"
    os.environ["TF_POPLAR_FLAGS"] = f"--executable_cache_path={cache}"
    import tensorflow as tf

    import ipufeed.device  # noqa: F401 - registers the devices
    from ipufeed.executable.program import file_format

    def step(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        y = tf.nn.relu(x @ w) + tf.constant([1.0, 2.0, 3.0, 4.0])
        return tf.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, tf.sin(v) * 0.5), [0, y]
        )[1]

    arguments = tf.ones([2, 4]), tf.ones([4, 4])
    with tf.device("/device:IPU:0"):
        tf.function(step, jit_compile=True)(*arguments)
    (path,) = cache.glob("*.poplar_exec")
    data = path.read_bytes()
    entry = file_format.unpack(data)
    (folder / "program.poplar_exec").write_bytes(data)
    (folder / "program.hlo").write_bytes(entry.program)
    (folder / "executable.bin").write_bytes(entry.executable)
    functions = (
        lambda x: tf.sort(x),
        lambda x: tf.cond(x[0] > 0, lambda: x + 1, lambda: x * tf.reduce_sum(x)),
        lambda x: (tf.cast(x, tf.bfloat16), tf.random.stateless_uniform([3], [1, 2])),
    )
    for number, function in enumerate(functions):
        lower = tf.function(function, jit_compile=True).experimental_get_compiler_ir
        text = lower(tf.ones([5]))(stage="hlo_serialized")
        (folder / f"lowered-{number}.hlo").write_bytes(text)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_result(target)
    write_programs(target)
