"""What queues, loop and device cost: the figures that programs on the device rest on.

Processor time and several IPUs are measured in processes of their own: blocked of
benchmarks.programs counts all of its process, four_ipus configures the device.
"""

import operator

from benchmarks import child, feeds
from benchmarks.targets import Row, comparison, row


def rows(quick: bool) -> list[Row]:
    """Measures all rows; TensorFlow runs in this process."""
    import ipufeed  # noqa: F401 (before TensorFlow's first op)

    repeats = 3 if quick else 11
    return [
        *trivial(repeats, 20_000 if quick else 100_000),
        *training(repeats, 300),
        *latency(300 if quick else 2000),
        *scalars(repeats, 1_000_000),
        *four_ipus(repeats),
        *blocked(repeats),
    ]


def trivial(repeats: int, iterations: int) -> list[Row]:
    """Measures the loop against Python, both with an element in and a result out."""
    work = feeds.Trivial()
    calls = iterations // 200
    ours, python, bare, elements = [], [], [], []
    for _ in range(repeats):
        ours.append(feeds.seconds(lambda: work.loop(iterations)) / iterations * 1e6)
        work.outfeed.dequeue()
        python.append(feeds.seconds(lambda: work.python_loop(calls)) / calls * 1e6)
        without = feeds.seconds(lambda: work.without_queues(iterations))
        bare.append(without / iterations * 1e6)
        elements.append(work.source_seconds(iterations) / iterations * 1e6)
    return [
        comparison(
            "trivial loop with queues: less than a Python loop of jitted steps",
            "at least",
            100,
            "x",
            operator.truediv,
            python,
            ours,
        ),
        row("    an iteration of the loop", "at most", 1.5, "us", ours),
        row("    without the queues", "", 0, "us", bare),
        row("    an element of its dataset, in a bare C++ loop", "", 0, "us", elements),
        row("    an iteration in Python", "", 0, "us", python),
    ]


def training(repeats: int, steps: int) -> list[Row]:
    """Measures a 784-128-10 step, against the same loop without queues."""
    work = feeds.Training()
    fed, unfed = [], []
    for _ in range(3 * repeats):  # cheap, and the matmuls' threads make it uneven
        fed.append(feeds.seconds(lambda: work.loop(steps)) / steps * 1e6)
        work.outfeed.dequeue()
        unfed.append(feeds.seconds(lambda: work.without_queues(steps)) / steps * 1e6)
    return [
        comparison(
            "784-128-10 training step, batch 32: against no queues",
            "at most",
            1.1,
            "x",
            operator.truediv,
            fed,
            unfed,
        ),
        row("    a step with queues", "", 0, "us", fed),
    ]


def latency(results: int) -> list[Row]:
    """Measures the latency of each result, as a value: the median is the p50.

    The pipe's is what the same takes without TensorFlow: late wake-ups are the machine's.
    """
    return [
        row(
            "outfeed, from enqueue to a thread that sleeps in stream(), p50",
            "at most",
            25,
            "us",
            [1e6 * value for value in feeds.result_latencies(results)],
        ),
        row(
            "    from a write to a thread that sleeps in a pipe's read",
            "",
            0,
            "us",
            [1e6 * value for value in feeds.pipe_latencies(results)],
        ),
    ]


def scalars(repeats: int, results: int) -> list[Row]:
    """Measures a million results that were not read while the program ran."""
    work = feeds.Scalars()
    given, taken = [], []
    for _ in range(repeats):
        given.append(feeds.seconds(lambda: work.fill(results)) / results * 1e6)
        taken.append(feeds.seconds(work.outfeed.dequeue) / results * 1e6)
    return [
        row("a million scalars dequeued at once, each", "at most", 0.05, "us", taken),
        row("    the program, each", "", 0, "us", given),
    ]


def numbers(module: str, repeats: int) -> list[list[float]]:
    """Runs a module that prints a line of numbers for each repeat; returns the columns."""
    text = child.output(module, str(repeats), timeout_s=60.0 * (repeats + 2))
    lines = [[float(each) for each in line.split()] for line in text.splitlines()]
    return [list(column) for column in zip(*lines, strict=True)]


def four_ipus(repeats: int) -> list[Row]:
    """Measures four programs at once against one, each fed at 1 ms per element."""
    one, four = numbers("programs.four_ipus", repeats)
    return [
        comparison(
            "four IPUs fed at 1 ms per element: time against that of one",
            "at most",
            1.2,
            "x",
            operator.truediv,
            four,
            one,
        )
    ]


def blocked(repeats: int) -> list[Row]:
    """Measures the four ways to wait, each for as long as it takes."""
    names = (
        "program, empty infeed",
        "program, full outfeed",
        "feeder, full infeed",
        "thread in stream(), no result",
    )
    columns = numbers("programs.blocked", repeats)
    return [
        row(f"blocked: {name}: CPU of the process", "at most", 5, "% of a core", values)
        for name, values in zip(names, columns, strict=True)
    ]
