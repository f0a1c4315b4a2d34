"""A program that ends normally leaves stderr empty: no warning of what goes on inside.

program --python -m ipufeed.run--> exit code 0, stderr == ""

Each program feeds from datasets whose destructors log what they do not find: cache() and
shuffle() delete their elements and their counters from a resource manager.
"""

import concurrent.futures
import os
import subprocess
import sys

import children
import pytest
from helpers import DEADLOCK_S

pytestmark = [pytest.mark.process, pytest.mark.long]

BEGINNING = """
import logging, sys
import tensorflow as tf
from tensorflow.python.ipu import ipu_compiler, ipu_infeed_queue, ipu_outfeed_queue
from tensorflow.python.ipu import loops, ipu_strategy, config as ipu_config
from tensorflow.python.ipu.scopes import ipu_scope

logging.getLogger("ipufeed").setLevel(logging.WARNING)  # not the line of attached IPUs
v1 = tf.compat.v1
Infeed = ipu_infeed_queue.IPUInfeedQueue
Outfeed = ipu_outfeed_queue.IPUOutfeedQueue


def attach(ipus):
    config = ipu_config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def numbers():
    for i in range(64):
        yield float(i)


def as_float(x):
    return tf.cast(x, tf.float32)


def datasets():
    first = tf.data.Dataset.range(24).map(as_float)
    python = tf.data.Dataset.from_generator(
        numbers, output_signature=tf.TensorSpec([], tf.float32)
    )
    # Of a cache that is not full when the queue goes TensorFlow rightly warns.
    few = first.take(4)
    return [
        few.cache().shuffle(5).repeat(),
        few.shuffle(24).cache().repeat().prefetch(4),
        first.shuffle(3),
        python.shuffle(7).repeat(),
        python.prefetch(2),
        tf.data.Dataset.range(3).interleave(
            lambda i: first.shuffle(4).repeat(), num_parallel_calls=2
        ),
    ]
"""

# Version 1. argv: IPUs, whether the deleter runs, how the session ends.
GRAPH = (
    BEGINNING
    + """
ipus, deletes, end = int(sys.argv[1]), sys.argv[2] == "deleter", sys.argv[3]
v1.disable_eager_execution()
attach(ipus)
session = v1.Session()
for dataset in datasets():
    infeed, outfeed = Infeed(dataset), Outfeed()

    def body(x):
        return outfeed.enqueue(x)

    def net():
        return loops.repeat(8 // ipus, body, [], infeed)

    with ipu_scope("/device:IPU:0"):
        program = ipu_compiler.compile(net, [])
    results, deleter = outfeed.dequeue(), infeed.deleter
    session.run(infeed.initializer)
    session.run(program)
    if session.run(results).size != 8:
        raise SystemExit("a result is missing")
    if deletes:
        session.run(deleter)
if end == "closed":
    session.close()
elif end == "dropped":
    del session
print("ended")
"""
)

# Version 2. argv: IPUs, whether the deleter acts.
FUNCTION = (
    BEGINNING
    + """
ipus, deletes = int(sys.argv[1]), sys.argv[2] == "deleter"
attach(ipus)
strategy = ipu_strategy.IPUStrategy()
queues = [(Infeed(dataset), Outfeed()) for dataset in datasets()]


@tf.function(jit_compile=True)
def run():
    for infeed, outfeed in queues:

        def body(x, outfeed=outfeed):
            outfeed.enqueue(x)

        loops.repeat(8 // ipus, body, [], infeed)


for infeed, _ in queues:
    infeed.initializer
with strategy.scope():
    strategy.run(run)
for infeed, outfeed in queues:
    if outfeed.dequeue().numpy().size != 8:
        raise SystemExit("a result is missing")
    if deletes:
        infeed.deleter
        outfeed.deleter
print("ended")
"""
)

# Feeders that end as soon as they have begun, or have not begun.
STARTED = (
    BEGINNING
    + """
v1.disable_eager_execution()
session = v1.Session()
for number in range(12):
    infeed = Infeed(tf.data.Dataset.range(1000).map(as_float))
    session.run(infeed.initializer)
    if number < 8:
        infeed.read_ahead()
print("ended")
"""
)

CASES = {
    "graph, only started": (STARTED,),
    "graph, closed": (GRAPH, "1", "-", "closed"),
    "graph, dropped": (GRAPH, "1", "-", "dropped"),
    "graph, open": (GRAPH, "1", "-", "open"),
    "graph, 2 replicas, deleter, closed": (GRAPH, "2", "deleter", "closed"),
    "function": (FUNCTION, "1", "-"),
    "function, 2 replicas, deleter": (FUNCTION, "2", "deleter"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each program's finished process; two at a time, since each starts TensorFlow."""
    folder = tmp_path_factory.mktemp("silence")
    environment = {**os.environ, "TF_POPLAR_FLAGS": ""}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)

    def run(name):
        text, *arguments = CASES[name]
        file = folder / f"{name.replace(', ', '_').replace(' ', '_')}.py"
        file.write_text(text)
        return children.run(
            [sys.executable, "-m", "ipufeed.run", str(file), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLOCK_S,
            check=False,
            cwd=folder,
            env=environment,
        )

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_program_that_ends_normally_prints_nothing(runs, name):
    """Neither TensorFlow nor the feeders log anything when queues and sessions end."""
    done = runs[name]

    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


BESIDE = (
    BEGINNING
    + """
import threading, time
infeed = Infeed(tf.data.Dataset.range(10**9).map(as_float))
infeed.initializer
strategy = ipu_strategy.IPUStrategy()


@tf.function(jit_compile=True)
def program(n):
    return loops.repeat(n, lambda total, x: total + x, [0.0], infeed)


def run(n):
    with strategy.scope():
        strategy.run(program, [tf.constant(n)])


run(1)
threading.Thread(target=run, args=[2**31 - 1], daemon=True).start()
while infeed.stats().elements < 1000:
    time.sleep(0.01)
"""
)


def test_the_exit_silently_stops_a_program_of_a_daemon_thread():
    """As Python ends such a thread: it is not an error of the program."""
    done = children.run(
        [sys.executable, "-c", "import ipufeed.compat as c; c.install()" + BESIDE],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "has been closed" not in done.stderr
