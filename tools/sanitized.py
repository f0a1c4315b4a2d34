"""Runs the op library under a sanitizer: python tools/sanitized.py address|thread

Builds it with IPUFEED_SANITIZE into a temporary folder, puts it next to a copy of the
package, and measures datasets and runs programs in a process that has the sanitizer's
run-time library preloaded. Exit code 0: built, and nothing was reported.

Only `address` is run. ThreadSanitizer must see both sides of every synchronisation, and
TensorFlow is not built with it: a tensor that one of TensorFlow's threads wrote and one of
ipufeed's reads is reported, however they synchronise. Races of ipufeed's own code are
searched for without TensorFlow: tests/cc, in every test run. The library must build with
`thread` all the same, for users of an instrumented TensorFlow.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 600.0
BUILD_LIMIT_S = 1800.0  # ten minutes on two CPUs that other processes use, too

PROGRAM = """
import ipufeed
import tensorflow as tf
from helpers import run_op

def check(dataset, elements, **attributes):
    counters, _ = run_op(dataset, **attributes)
    assert counters["elements"] == elements, counters

def split(x):
    return 1 // (5 - int(x))

numbers = tf.data.Dataset.range(2000)
for copy in (True, False):
    check(numbers, 2000, copy=copy)
    mapped = numbers.shuffle(100).map(lambda x: (x, tf.strings.as_string(x)))
    check(mapped.batch(4).prefetch(2), 500, copy=copy)
    ragged = tf.data.Dataset.range(1, 9).map(
        lambda n: tf.RaggedTensor.from_row_lengths(tf.range(n), [n]))
    check(ragged, 8, copy=copy)
    check(numbers.window(10), 200, copy=copy)
    check(numbers.take(100), 300, copy=copy, passes=3, epoch_per_pass=True)
failing = tf.data.Dataset.range(10).map(lambda x: tf.py_function(split, [x], tf.int64))
check(failing, 5)
for _ in range(50):
    counters, _ = run_op(numbers.prefetch(2), epochs=1, elements_per_epoch=3)
    assert counters["elements"] == 3
run_op(tf.data.Dataset.range(10**9), seconds_ns=10**9)

import threading
from ipufeed.device.program import loops
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

def feed(jit, n, read):
    pairs = numbers.map(lambda x: (tf.cast(x, tf.float32), tf.fill([300, 90], 1.0)))
    infeed, outfeed = IPUInfeedQueue(pairs, prefetch_depth=3), IPUOutfeedQueue()
    infeed.initializer

    @tf.function(jit_compile=jit)
    def program(n):
        body = lambda x, y: outfeed.enqueue((x, y))
        loops.repeat(n, body, infeed_queue=infeed)

    def run():
        with tf.device("/device:IPU:0"):
            try:
                program(tf.constant(n))
            except tf.errors.OutOfRangeError:
                assert n > 2000

    thread = threading.Thread(target=run)
    thread.start()
    found = read(outfeed)
    thread.join()
    assert found + len(outfeed.dequeue()[0]) == min(n, 2000)
    infeed.deleter
    outfeed.deleter

for jit in (True, False):
    feed(jit, 500, lambda outfeed: sum(1 for _ in outfeed.stream()))
    feed(jit, 500, lambda outfeed: 0)
    feed(jit, 2001, lambda outfeed: sum(1 for _, _ in zip(range(7), outfeed.stream())))
print("clean")
"""


def library_path(name: str) -> str:
    """Returns the path of one of the compiler's run-time libraries."""
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    path = subprocess.run(command, check=True, capture_output=True, text=True)
    return path.stdout.strip()


def main() -> int:
    """Builds and runs under the sanitizer; prints the verdict."""
    sanitizer = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "setup.py", "--quiet", "build_ext"]
        build += ["--build-lib", folder, "--build-temp", f"{folder}/objects"]
        environment = {**os.environ, "IPUFEED_SANITIZE": sanitizer}
        subprocess.run(
            build, cwd=ROOT, env=environment, check=True, timeout=BUILD_LIMIT_S
        )
        shutil.copytree(
            ROOT / "ipufeed",
            f"{folder}/ipufeed",
            ignore=shutil.ignore_patterns("*.so", "__pycache__"),
            dirs_exist_ok=True,
        )
        if sanitizer != "address":
            print(f"{sanitizer}: built")
            return 0
        # The C++ library too: the interceptors look for it before TensorFlow loads it.
        preload = f"{library_path('libasan.so')} {library_path('libstdc++.so')}"
        environment = {
            **os.environ,
            "LD_PRELOAD": preload,
            "ASAN_OPTIONS": "detect_leaks=0",  # Python and TensorFlow keep what they have
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'tests' / 'support'}",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM],
            env=environment,
            cwd=folder,
            timeout=LIMIT_S,
            capture_output=True,
            text=True,
            check=False,
        )
    clean = done.returncode == 0 and done.stdout.strip() == "clean"
    print(f"{sanitizer}: {'clean' if clean else 'FAILED'}")
    if not clean:
        print(done.stdout, done.stderr, sep="\n")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
