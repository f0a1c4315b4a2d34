"""No exception leaves the native core: each boundary turns it into an error.

a boundary passed --> fault_point() throws --> guarded() --> an error with its text
"""

import itertools
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from feeding import IPU, InThread, feeding, numbers, silent, stop_programs, until

from ipufeed import _native
from ipufeed.device.program import loops, steps
from ipufeed.queues import (
    IPUInfeedQueue,
    IPUOutfeedMode,
    IPUOutfeedQueue,
    set_stall_report,
)

CC = Path(__file__).resolve().parents[2] / "ipufeed" / "cc"
# Fault of ipufeed/cc/base/faults.h.
COUNT, BAD_ALLOC, RUNTIME_ERROR, UNKNOWN = 1, 2, 3, 4
# They report errors, set what the guards throw, or read one number.
UNGUARDED = {
    *("ipufeed_last_error", "ipufeed_set_fault", "ipufeed_fault_counts"),
    *("ipufeed_last_program", "ipufeed_detached_work"),
}
WORDS = {
    BAD_ALLOC: (tf.errors.ResourceExhaustedError, "There is no memory"),
    RUNTIME_ERROR: (tf.errors.InternalError, "a fault that a test has set"),
    UNKNOWN: (tf.errors.InternalError, "An exception in"),
}


def a_run(jit=True):
    """Every kind of call of both queues, from their making to their end."""
    infeed = IPUInfeedQueue(numbers(), prefetch_depth=4)
    outfeed = IPUOutfeedQueue(buffer_depth=1)
    last = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    made = []
    try:
        _ = infeed.initializer
        made.append(infeed)

        def body(x):
            if jit:
                steps.step(0.0)
            last.enqueue(x * 2)
            return outfeed.enqueue(x)

        @tf.function(jit_compile=jit)
        def program():
            loops.repeat(5, body, infeed_queue=infeed)

        with tf.device(IPU):
            program()
            first = outfeed.dequeue().numpy().tolist()
            program()
        second = [float(each) for each in outfeed.stream()]
        highest = float(last.dequeue())
        infeed.stats()
        outfeed.stats()
        return first, second, highest
    finally:
        stop_programs()
        until(lambda: _native.entry().ipufeed_wait_idle(0, 10_000_000))
        for queue in made:
            _ = queue.deleter
        _ = outfeed.deleter
        _ = last.deleter


RIGHT = ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9], 18.0)

# Places that allocate: a fault is always a lack of memory.
ALLOCATIONS = {"a result of outfeed queue", "an op's output"}

# Where a fault is not an error of the run's.
ANSWERED = {
    "a store of results",  # the result itself is kept: tests/queues/test_outfeed_owns.py
    "ipufeed_wait_for_interrupt",  # of a thread that listens
    "ipufeed_next_line",
    "ipufeed_infeed_forget",  # of a garbage collection
    "ipufeed_outfeed_forget",
    # Ends what has failed, and allocates nothing: what it did not end would stay.
    "ipufeed_end_eager_programs",
    "ipufeed_stop_programs",  # of what this test cleans up with
    "ipufeed_wait_idle",
    "IpufeedInfeedDelete",
    "IpufeedOutfeedDelete",
}


def passed(jit):
    """The boundaries of a run, and how often each is passed."""
    entry = _native.entry()
    assert a_run(jit) == RIGHT  # the first use of the device has boundaries of its own
    entry.ipufeed_set_fault(b"", 0, COUNT)
    try:
        assert a_run(jit) == RIGHT
        text = _native.ctypes.create_string_buffer(1 << 16)
        entry.ipufeed_fault_counts(text, len(text))
    finally:
        entry.ipufeed_set_fault(b"", 0, 0)
    lines = text.value.decode().splitlines()
    return {name: int(count) for name, count in (line.split("\t") for line in lines)}


def failed_run(fault, jit):
    """The error of a run with a fault; None if it had none."""
    with fault:
        try:
            a_run(jit)
        except tf.errors.OpError as raised:
            return raised
    return None


def places(boundaries, kind):
    """What fails, and how: the first and the middle passage of each boundary.

    Without a kind each boundary has one passage, and its neighbour another kind.
    """
    kinds = itertools.cycle(WORDS) if kind is None else itertools.repeat(kind)
    for place, (name, count) in enumerate(sorted(boundaries.items())):
        first_and_middle = sorted({1, (count + 1) // 2})
        if kind is None:
            first_and_middle = first_and_middle[place % len(first_and_middle) :][:1]
        for nth in first_and_middle:
            yield name, nth, next(kinds)


@pytest.mark.long
@pytest.mark.parametrize("jit", [True, False], ids=["compiled", "executor"])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(None, id="mixed"),
        pytest.param(BAD_ALLOC, id="bad_alloc", marks=pytest.mark.soak),
        pytest.param(RUNTIME_ERROR, id="runtime_error", marks=pytest.mark.soak),
        pytest.param(UNKNOWN, id="unknown", marks=pytest.mark.soak),
    ],
)
def test_an_exception_at_any_boundary_is_an_error_and_all_goes_on(fault, jit, kind):
    """An error with its text, then a good run."""
    boundaries = passed(jit)
    silent = []
    for name, nth, what in places(boundaries, kind):
        if name not in ANSWERED:
            error, words = WORDS[BAD_ALLOC if name in ALLOCATIONS else what]
            # Polls pass a boundary as often as time allows: perhaps once only.
            for passage in sorted({nth, 1}, reverse=True):
                caught = failed_run(fault(name, passage, what), jit)
                if caught is not None:
                    break
            else:
                silent.append((name, nth))
                continue
            assert isinstance(caught, error), (name, caught)
            assert words in str(caught), (name, caught)
            assert a_run(jit) == RIGHT, name
    assert silent == []
    wanted = {"ipufeed_outfeed_new", "IpufeedInfeedCreate", "a feeder"}
    wanted |= {"ipufeed_enqueue"} if jit else {"IpufeedEnqueue", "IpufeedDequeue"}
    assert wanted <= boundaries.keys()


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_no_memory_for_a_result_fails_the_program_and_loses_none(fault, nth):
    """Of the tensors that a program enqueues; those before it can be dequeued.

    Each result is too large for a buffer of several, and needs memory of its own.
    """
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program(n):
        loops.repeat(
            n, lambda i: (i + 1.0, outfeed.enqueue(tf.fill([1 << 18], i))), [0.0]
        )

    with tf.device(IPU):
        with (
            fault("a result of outfeed queue", nth),
            pytest.raises(
                tf.errors.ResourceExhaustedError,
                match=rf"no memory for a result of outfeed queue '{outfeed._id}': float",
            ),
        ):
            program(tf.constant(8))
        before = outfeed.dequeue()[:, 7].numpy().tolist() if nth > 1 else []
        program(tf.constant(3))

    assert before == list(range(nth - 1))
    assert outfeed.dequeue()[:, 7].numpy().tolist() == [0, 1, 2]


def test_an_entry_point_reports_what_has_failed(fault):
    """Each thread has its own error; the next call is not affected by it."""
    entry = _native.entry()
    with fault("ipufeed_ipus", 2, RUNTIME_ERROR):
        assert entry.ipufeed_ipus(0) == 1
        with pytest.raises(
            tf.errors.InternalError,
            match=r"a fault that a test has set \(an exception in ipufeed_ipus\)\.",
        ):
            entry.ipufeed_ipus(0)
        assert entry.ipufeed_ipus(0) == 1


def entry_points():
    """The names that _entry_points.py declares, but for those that report errors."""
    text = (CC.parent / "_entry_points.py").read_text()
    names = re.findall(r'^ +\(?"(ipufeed_\w+)",', text, re.MULTILINE)
    return sorted(set(names) - UNGUARDED)


@pytest.mark.parametrize("name", entry_points())
def test_each_entry_point_gives_its_exception_as_an_error(fault, name):
    """Thrown before it reads its arguments, which are all zeros and null pointers."""
    function = getattr(_native.entry(), name)
    arguments = [
        None if kind in (_native.ctypes.c_char_p, _native.ctypes.c_void_p) else kind()
        for kind in function.argtypes
    ]
    values = [getattr(each, "value", each) for each in arguments]

    with (
        fault(name, 1, RUNTIME_ERROR),
        pytest.raises(tf.errors.InternalError, match=rf"an exception in {name}"),
    ):
        function(*values)


def test_a_text_that_is_none_is_an_error():
    """A null pointer where a name belongs."""
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="`name` of ipufeed_name_infeed must not be null",
    ):
        _native.entry().ipufeed_name_infeed(10**9, None)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_beyond_64_bits_is_refused(number):
    """It would be cut off silently by ctypes."""
    with pytest.raises(OverflowError, match=rf"in \[-2\*\*63, 2\*\*63\), got {number}"):
        _native.entry().ipufeed_outfeed_runs(number)


def test_what_a_signals_handler_raises_among_the_arguments_is_raised():
    """Were it called by ctypes, the error would be ArgumentError."""

    class Interrupted:
        def __index__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _native.entry().ipufeed_ipus(Interrupted())


def test_a_number_beyond_32_bits_is_refused():
    """Where the native argument is an int."""
    with pytest.raises(OverflowError, match=r"2\*\*31\), got 2147483648"):
        _native.entry().ipufeed_ipus(2**31)


def test_the_thread_that_logs_outlives_a_failure(fault, caplog):
    """Of one message; the next one is logged as ever."""
    release = threading.Event()

    def logged(words):
        return sum(words in record.getMessage() for record in caplog.records)

    with (
        feeding(silent(release)) as feeds,
        fault("ipufeed_next_line", 1, RUNTIME_ERROR),
    ):
        set_stall_report(0.02)
        try:
            run = InThread(feeds.run, 1)
            until(lambda: logged("has waited for") >= 3)
        finally:
            set_stall_report(30)
        release.set()
        assert run.end() is None

    assert logged("was lost: a fault that a test has set") == 1


def functions(text, pattern):
    """The bodies of the C++ functions whose heads match, by name, without blanks."""
    found = {}
    for match in re.finditer(pattern, text, re.MULTILINE):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found[match[1]] = "".join(text[match.end() : end].split())
    return found


def test_every_entry_point_is_guarded():
    """It is one call of entry(), and no kernel goes around its base class."""
    seen = {}
    for source in sorted(CC.rglob("*.cc")):
        text = source.read_text()
        seen |= functions(text, r"^IPUFEED_API [\w: ]+ (\w+)\([^)]*\) \{")
        assert not re.search(r"(public|: ) ?(tensorflow::)?(Async)?OpKernel \{", text)
        assert not re.search(r"public (tensorflow::)?XlaOpKernel", text), source.name
    assert len(seen) > 40
    for name, body in seen.items():
        if name not in UNGUARDED:
            # Between the two: what is looked at first, if anything.
            assert re.match(r"returnipufeed::entry\(__func__,(\{.*?\},)?\[", body), name


def test_every_call_of_a_compiled_program_is_guarded():
    """Each handler's function is one answer()."""
    seen = {}
    handlers = set()
    for source in sorted(CC.rglob("*.cc")):
        text = source.read_text()
        handlers |= set(re.findall(r"XLA_FFI_DEFINE_HANDLER\(\s*\w+,\s*(\w+),", text))
        seen |= functions(text, r"^ffi::Error (\w+)\([^{]*\) \{")
    assert handlers
    assert handlers <= seen.keys()
    for name in handlers:
        assert seen[name].startswith("returnanswer("), name


def test_bools_of_constant_data_are_true(flags):
    """A byte of 2 is not a bool: what computes with it may do anything."""
    flags("--null_data_feed")
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors([True, False]).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def program():
        loops.repeat(20, outfeed.enqueue, infeed_queue=infeed)

    with tf.device(IPU):
        program()
    values = outfeed.dequeue().numpy()

    assert set(values.view(np.uint8).ravel().tolist()) == {1}
    _ = infeed.deleter
