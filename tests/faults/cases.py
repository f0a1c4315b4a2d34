"""One process each, of test_signals.py: `python cases.py CASE`."""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))

import numpy as np
import tensorflow as tf
from feeding import IPU, Feeding, numbers, silent, until
from helpers import cluster, free_addresses

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler, executor, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system.system import reset_ipu_configuration
from ipufeed.parallel.collectives.ops import cross_replica_sum
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue, set_outfeed_limit

never = threading.Event()


def when_parked(queue, act):
    """Acts once the program waits for the queue."""

    def watch():
        until(lambda: queue.stats().device_parks > 0)
        act()

    threading.Thread(target=watch, daemon=True).start()


def press(number=signal.SIGINT, times=1):
    def act():
        for _ in range(times):
            os.kill(os.getpid(), number)

    return act


def run_by_strategy(feeds, n):
    strategy = IPUStrategy()
    with strategy.scope():
        strategy.run(feeds.program, [n])


def after():
    """Another program on the same device."""
    feeds = Feeding(numbers(5))
    feeds.run(3)
    print("after:", feeds.results(), flush=True)


def interrupted(run):
    try:
        run()
    except KeyboardInterrupt:
        print("KeyboardInterrupt", flush=True)
    after()


def in_a_session():
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(silent(never))
        with ipu_scope(IPU):
            run = compiler.compile(
                lambda: loops.repeat(3, lambda x: None, infeed_queue=infeed)
            )
        session = tf.compat.v1.Session()
        session.run(infeed.initializer)
        when_parked(infeed, press())
        session.run(run)


def by_a_strategy(times=1):
    feeds = Feeding(silent(never))
    when_parked(feeds.infeed, press(times=times))
    run_by_strategy(feeds, 3)


@contextlib.contextmanager
def configured(ipus, processes=1):
    """A device of `ipus` IPUs, and then none; yields what runs a program on it."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.experimental.multi_replica_distribution.process_count = processes
    config.configure_ipu_system()
    strategy = IPUStrategy()

    def run(program):
        with strategy.scope():
            strategy.run(tf.function(program, jit_compile=True))

    try:
        yield run
    finally:
        reset_ipu_configuration()


def in_an_exchange():
    """One replica waits for data, and three for that one."""
    with configured(4) as run:
        infeed = IPUInfeedQueue(numbers(3).concatenate(silent(never)))
        _ = infeed.initializer

        def body(x):
            cross_replica_sum(x)

        when_parked(infeed, press())
        run(lambda: loops.repeat(3, body, [], infeed))


def in_a_pipeline(ipus):
    """The first stage waits for data, and the second for the first."""
    with configured(ipus) as run:
        infeed = IPUInfeedQueue(numbers(7).concatenate(silent(never)))
        outfeed = IPUOutfeedQueue()
        _ = infeed.initializer

        def second(x):
            return cross_replica_sum(x) * 2.0

        def program():
            return pipeline(
                [lambda x: x + 1.0, second],
                4,
                repeat_count=3,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
            )

        when_parked(infeed, press())
        run(program)


def waiting_for_a_process():
    """The other one is never started."""
    os.environ["TF_CONFIG"] = cluster(free_addresses(2), 0)
    with configured(1, processes=2) as run:
        infeed = IPUInfeedQueue(numbers(3))
        _ = infeed.initializer

        def body(x):
            cross_replica_sum(x)

        def watch():
            until(lambda: infeed.stats().elements > 0)
            time.sleep(1.0)
            press()()

        threading.Thread(target=watch, daemon=True).start()
        run(lambda: loops.repeat(3, body, [], infeed))


def in_executor_mode():
    with executor.executor_scope("tensorflow"):
        feeds = Feeding(silent(never), jit=False)
        when_parked(feeds.infeed, press())
        run_by_strategy(feeds, 3)


def in_an_enqueue():
    set_outfeed_limit(0)
    feeds = Feeding(numbers())
    when_parked(feeds.outfeed, press())
    run_by_strategy(feeds, 1000)


def while_it_is_compiled():
    """The signal comes before the loop has begun; it would run for hours."""

    def body(x, element):
        for weight in weights:
            x = tf.nn.relu(tf.linalg.matmul(x, weight) + element)
        return x

    with tf.Graph().as_default():
        weights = [tf.zeros([32, 32]) for _ in range(12)]
        infeed = IPUInfeedQueue(numbers())
        with ipu_scope(IPU):
            run = compiler.compile(
                lambda x: loops.repeat(2**31 - 1, body, [x], infeed),
                [tf.zeros([32, 32])],
            )
        session = tf.compat.v1.Session()
        session.run(infeed.initializer)
        threading.Timer(0.05, press()).start()
        session.run(run)


def terminated():
    feeds = Feeding(silent(never))
    when_parked(feeds.infeed, press(signal.SIGTERM))
    run_by_strategy(feeds, 3)


def behind_a_chain(number):
    """A handler that calls the one before it has come after the first program."""
    feeds = Feeding(numbers(5))
    feeds.run(3)
    with open(os.devnull, "w") as file:
        faulthandler.register(number, file=file, chain=True)
        feeds = Feeding(silent(never))
        when_parked(feeds.infeed, press(number))
        run_by_strategy(feeds, 3)


def terminated_with_a_handler():
    def handler(number, frame):
        sys.exit(143)

    handler.stops_programs = True
    signal.signal(signal.SIGTERM, handler)
    try:
        terminated()
    except SystemExit:
        print("SystemExit", flush=True)
        raise


def exit_in_a_program():
    feeds = Feeding(silent(never))
    threading.Thread(target=run_by_strategy, args=[feeds, 3], daemon=True).start()
    until(lambda: feeds.infeed.stats().device_parks > 0)


def exit_in_a_stream():
    feeds = Feeding(numbers())
    feeds.run(1)
    feeds.results()
    entered = threading.Event()

    def read():
        entered.set()
        for _ in feeds.outfeed.stream():
            pass

    threading.Thread(target=read, daemon=True).start()
    entered.wait()


def fork(use=None):
    feeds = Feeding(numbers(5))
    feeds.run(1)
    uses = {
        "dequeue": lambda: np.asarray(feeds.outfeed.dequeue()),
        "stream": lambda: next(feeds.outfeed.stream()),
        "session": in_a_session,
    }
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        if use is not None:
            try:
                uses[use]()
            except tf.errors.FailedPreconditionError as error:
                print(error.message, flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print("child:", os.waitstatus_to_exitcode(status))
    after()


CASES = {
    "interrupted in a dequeue, in a session": lambda: interrupted(in_a_session),
    "interrupted in a dequeue, by a strategy": lambda: interrupted(by_a_strategy),
    "interrupted in a dequeue, in executor mode": lambda: interrupted(in_executor_mode),
    "interrupted in an enqueue, by a strategy": lambda: interrupted(in_an_enqueue),
    "interrupted while it is compiled": lambda: interrupted(while_it_is_compiled),
    "interrupted in an exchange of replicas": lambda: interrupted(in_an_exchange),
    "interrupted in a pipeline": lambda: interrupted(lambda: in_a_pipeline(2)),
    "interrupted in copies of one": lambda: interrupted(lambda: in_a_pipeline(4)),
    "interrupted in a wait for a process": lambda: interrupted(waiting_for_a_process),
    "interrupted twice": lambda: interrupted(lambda: by_a_strategy(times=2)),
    "interrupted behind a handler that chains": lambda: interrupted(
        lambda: behind_a_chain(signal.SIGINT)
    ),
    "terminated": terminated,
    "terminated behind a handler that chains": lambda: behind_a_chain(signal.SIGTERM),
    "terminated with a handler": terminated_with_a_handler,
    "exit while a thread is blocked in a program": exit_in_a_program,
    "exit while a stream is waited for": exit_in_a_stream,
    "fork that uses a queue: dequeue": lambda: fork("dequeue"),
    "fork that uses a queue: stream": lambda: fork("stream"),
    "fork that uses a queue: session": lambda: fork("session"),
    "fork that ignores the queues": fork,
}

if __name__ == "__main__":
    # A shell ignores Ctrl-C for what it starts in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    CASES[sys.argv[1]]()
