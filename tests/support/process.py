"""One of the processes of test_several_processes.py: says what comes of each collective.

    TF_CONFIG=... python process.py [early | starved ELEMENTS [leaves] |
                                     mixed ELEMENTS STEPS SIZE | unlike STEPS SIZE KIND |
                                     stopped]

Prints a JSON object for each case, on a line of its own. At the end all but the first
process exit silently, and that one prints what it gets of them. With `early` they go
before there was any collective. With `starved` they have ELEMENTS elements for a program
that takes four, and live on when it has failed; or leave, and the first, whose elements
come a second late, asks only then. With `mixed` they have ELEMENTS elements, and STEPS
steps in the program, and all go on to another one with tensors of SIZE. With `unlike` they
have STEPS steps in it, tensors of SIZE, and sums or means, where the first has 4 sums of 1
number.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import tensorflow as tf
from helpers import print_stacks_on_signal
from models import Pipelined, v1
from tensorflow.python.data.experimental.ops import testing

from ipufeed import _native
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import loops
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.collectives import processes
from ipufeed.parallel.collectives.peers import reach
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer
from ipufeed.queues import IPUInfeedQueue

CLUSTER = json.loads(os.environ["TF_CONFIG"])
INDEX = CLUSTER["task"]["index"]
COUNT = len(CLUSTER["cluster"]["worker"])
DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64")


def configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.experimental.multi_replica_distribution.process_count = COUNT
    config.experimental.multi_replica_distribution.process_index = INDEX
    config.configure_ipu_system()


def run(build: Any, jit: bool = True) -> Any:
    """What a program gives, as lists; of an error its class and its text."""
    strategy = IPUStrategy()
    program = tf.function(build, jit_compile=jit)
    try:
        with strategy.scope():
            found = strategy.run(program)
    except tf.errors.OpError as error:
        return [type(error).__name__, error.message]
    return tf.nest.map_structure(lambda each: each.numpy().tolist(), found)


def print_result(case: str, result: Any) -> None:
    sys.stdout.write(json.dumps({case: result}) + "\n")
    sys.stdout.flush()


def sums() -> list[Any]:
    """Of 1, 2, 3 times this process's number, in each dtype; and a mean."""
    index = collectives.replication_index()
    found = [
        collectives.cross_replica_sum(tf.cast(tf.range(1, 4) * (index + 1), dtype))
        for dtype in DTYPES
    ]
    mean = collectives.cross_replica_mean(tf.cast(index, tf.float32))
    return [tf.cast(each, tf.float32) for each in (*found, mean, index)]


def of_nothing() -> list[Any]:
    """A sum and a mean of no numbers, and a mean of them and others in one collective."""
    empty = tf.zeros([0, 4])
    return [
        collectives.cross_replica_sum(empty),
        collectives.cross_replica_mean(tf.cast(empty, tf.float16)),
        *collectives.cross_replica_means([empty, tf.ones([2])]),
    ]


def in_groups(size: int) -> list[Any]:
    """A sum and a mean of the index of each replica, over groups of `size`."""
    index = tf.cast(collectives.replication_index(), tf.float32)
    return [
        collectives.cross_replica_sum(index, size),
        collectives.cross_replica_mean(index, size),
    ]


def train() -> dict[str, Any]:
    """A pipeline of two stages, this process's mini-batches."""
    model = Pipelined(
        lambda: CrossReplicaOptimizer(v1.train.MomentumOptimizer(0.05, 0.9)),
        2,
        4,
        shard=(COUNT, INDEX),
        repeat_count=3,
    )
    trained = model.train()
    return {
        "losses": trained.losses.tolist(),
        "weights": [each.tolist() for each in trained.weights],
    }


def go_early() -> None:
    """The first process waits for the others, which go once they have seen it."""
    configure(1)
    if INDEX == 0:
        print_result(
            "alone", run(lambda: collectives.cross_replica_sum(np.float32(1.0)))
        )
    else:
        wait_for_the_first(listens=True)
        time.sleep(2.0)  # and it has seen them
    os._exit(0)


def totals(
    elements: int,
    group: int | None,
    steps: int = 4,
    size: int = 1,
    collective: Any = collectives.cross_replica_sum,
    late_s: float = 0.0,
) -> Any:
    """What a program gives that takes `elements` elements, and adds them up in groups."""
    dataset = tf.data.Dataset.range(elements).map(lambda i: tf.ones(size))
    feed = IPUInfeedQueue(dataset.apply(testing.sleep(int(late_s * 1e6))))

    def body(total: Any, x: Any) -> Any:
        return total + collective(x, group)

    feed.initializer  # noqa: B018, in eager mode it is what starts the feed
    return run(lambda: loops.repeat(steps, body, [tf.zeros(size)], feed))


def starve(elements: int, leaves: bool = False) -> None:
    """All but the first process have too few elements."""
    configure(1)
    late_s = 1.0 if leaves and INDEX == 0 else 0.0
    if INDEX > 0:
        wait_for_the_first(listens=True)
    print_result("starved", totals(elements if INDEX > 0 else 4, None, late_s=late_s))
    if leaves:
        sys.exit()  # as a program that has failed does, at once
    if INDEX > 0:
        wait_for_the_first(listens=False)
    os._exit(0)


def mix(elements: int, steps: int, size: int) -> None:
    """The second process is not in step with the first, and both go on."""
    configure(1)
    print_result(
        "first", totals(elements, None, steps) if INDEX > 0 else totals(4, None)
    )
    print_result("second", totals(4, None, size=size))
    print_result("third", totals(4, None, size=size))
    if INDEX > 0:
        wait_for_the_first(listens=False)
    time.sleep(3.0)  # the second asks it in the meantime
    os._exit(0)


def be_unlike(steps: int, size: int, kind: str) -> None:
    """The second process has another program, of the same number."""
    configure(1)
    collective = getattr(collectives, f"cross_replica_{kind}")
    if INDEX > 0:
        print_result("program", totals(9, None, steps, size, collective))
        wait_for_the_first(listens=False)
    else:
        print_result("program", totals(9, None))
        time.sleep(3.0)  # the second asks it in the meantime
    os._exit(0)


def stop_waiting() -> None:
    """The first process stops its program while that waits for the others.

    Before that it runs another one on the same device.
    """
    configure(1)
    if INDEX > 0:
        wait_for_the_first(listens=True)
        wait_for_the_first(listens=False)
        os._exit(0)
    threads = record_threads()
    results: list[Any] = []
    running = threading.Thread(target=lambda: results.append(totals(4, None)))
    running.start()
    while not threads:
        time.sleep(0.01)
    print_result("at once", totals(4, None))
    _native.entry().ipufeed_stop_programs(b"the test")
    running.join(60.0)
    print_result("stopped", results)
    print_result("next", totals(4, None))
    os._exit(0)


def record_threads() -> set[int]:
    """The threads that have begun a collective between processes from now on."""
    threads: set[int] = set()
    reduce = processes.Group.reduce

    def recording(self: processes.Group, *arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return reduce(self, *arguments)

    processes.Group.reduce = recording
    return threads


def wait_for_the_first(listens: bool) -> None:
    """Until the first process listens, or no longer does."""
    while (reach(CLUSTER["cluster"]["worker"][0]) is None) != listens:
        time.sleep(0.1)


def main() -> None:
    print_stacks_on_signal()
    if sys.argv[1:] == ["early"]:
        go_early()
    if sys.argv[1:2] == ["starved"]:
        starve(int(sys.argv[2]), leaves=sys.argv[3:] == ["leaves"])
    if sys.argv[1:2] == ["mixed"]:
        mix(*map(int, sys.argv[2:]))
    if sys.argv[1:2] == ["unlike"]:
        be_unlike(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    if sys.argv[1:] == ["stopped"]:
        stop_waiting()
    configure(1)
    threads = record_threads()
    print_result("many sums", totals(100, None, steps=100))
    print_result("threads", len(threads))
    for ipus in (1, 2):
        configure(ipus)
        print_result(f"sums on {ipus}", run(sums))
        print_result(f"sums of nothing on {ipus}", run(of_nothing))
        print_result(
            f"groups of all on {ipus}", run(lambda n=ipus: in_groups(COUNT * n))
        )
    print_result("groups across", run(lambda: in_groups(3)))
    configure(1)
    print_result("sums in executor mode", run(sums, jit=False))
    print_result("gather", run(lambda: collectives.all_gather(tf.ones([2]), COUNT)))
    configure(2)
    print_result(
        "groups within a process",
        run(lambda: collectives.all_gather(collectives.replication_index(), 2)),
    )
    if INDEX > 0:  # a program of its own, which no process waits for
        print_result("evaluation", totals(0, 2))
        time.sleep(2.0)
    print_result("sums after an evaluation of one", run(sums))
    for ipus in (2, 4):
        configure(ipus)
        print_result(f"pipeline on {ipus}", train())
    configure(1)
    if INDEX > 0:
        os._exit(0)
    print_result("alone", run(lambda: collectives.cross_replica_sum(np.float32(1.0))))
    os._exit(0)  # the servers of a cluster cannot be closed


if __name__ == "__main__":
    main()
