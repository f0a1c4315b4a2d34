"""Random sequences of queue calls give what lists give, and what finds faults does so.

tools/sequences.py --seed--> a child runs the sequences (see tests/call_sequences)
"""

import os
import random
import sys

import children
import pytest
import tensorflow as tf
from call_sequences.checking import FaultError
from call_sequences.generate import sequence
from call_sequences.model import OutfeedModel, Signature
from call_sequences.running import report, run_calls, run_sequences, script, shrink
from helpers import ROOT

from ipufeed.queues import IPUOutfeedQueue

pytestmark = pytest.mark.long

COUNT = 20  # `.ci/run` has 400
LIMIT_S = 500.0  # only a hang gets there


@pytest.mark.process
def test_sequences_of_calls_do_what_the_model_does():
    """Each result once, in order, of the right dtype and shape; errors name the queue."""
    seed = os.environ.get("IPUFEED_TEST_SEED") or random.randrange(10**9)
    done = children.run(
        [
            sys.executable,
            str(ROOT / "tools" / "sequences.py"),
            f"--count={COUNT}",
            f"--portion={COUNT - 8}",
            f"--seed={seed}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"IPUFEED_TEST_SEED={seed}\n" in done.stdout
    # Each portion in a child of its own, so that none grows without end.
    assert f"in sequences 0 to {COUNT - 9};" in done.stdout
    assert f"in sequences {COUNT - 8} to {COUNT - 1};" in done.stdout


CALLS = [
    ("infeed", {"slot": 0, "size": 6}),
    ("outfeed", {"slot": 0}),
    ("run", {"infeed": 0, "outfeed": 0, "count": 4}),
    ("iterate", {"slot": 0, "most": 1}),
    ("configure", {"ipus": 2}),
    ("dequeue", {"slot": 0}),
]


def lose_the_last(found):
    return found[:-1]


def double_the_first(found):
    if isinstance(found, list):  # nothing was enqueued
        return found
    return tf.concat([found[:1], found], axis=0)


def reverse(found):
    return found[::-1]


def as_double(found):
    return tf.cast(found, tf.float64)


def one_shape_more(found):
    return found[..., None]


@pytest.mark.parametrize(
    ("change", "what"),
    {
        double_the_first: "4 results must come, got [5]",
        lose_the_last: "4 results must come, got [3]",
        reverse: "not [",
        as_double: "float64",
        one_shape_more: "not float32 ()",
    }.items(),
)
def test_a_planted_fault_is_found(monkeypatch, change, what):
    """A result that is lost, in another order, or of another dtype or shape."""
    real = IPUOutfeedQueue.dequeue
    monkeypatch.setattr(
        IPUOutfeedQueue, "dequeue", lambda queue: change(real(queue, False))
    )
    calls = [
        call for call in CALLS if call[0] in ("infeed", "outfeed", "run", "dequeue")
    ]

    assert what in str(run_calls(calls))


def test_a_wrong_error_is_a_fault(monkeypatch):
    """Another type, a message that names no queue, and none where one must come."""
    calls = [
        ("infeed", {"slot": 0, "size": 6}),
        ("outfeed", {"slot": 0, "last": True}),
        ("run", {"infeed": 0, "outfeed": 0, "count": 4}),
        ("dequeue", {"slot": 0}),
        ("dequeue", {"slot": 0}),  # the last result has been taken
    ]
    real = IPUOutfeedQueue.dequeue
    assert run_calls(calls) is None

    def planted(instead):
        def dequeue(queue):
            try:
                return real(queue)
            except tf.errors.FailedPreconditionError as error:
                return instead(error)

        return dequeue

    def wrong_type(error):
        raise KeyError("queue")

    def nameless(error):
        raise tf.errors.FailedPreconditionError(None, None, "it is not there")

    for instead, what in (
        (wrong_type, "KeyError"),
        (nameless, "names no queue"),
        (lambda error: [], "must raise one of ['FailedPreconditionError']"),
    ):
        monkeypatch.setattr(IPUOutfeedQueue, "dequeue", planted(instead))

        assert what in str(run_calls(calls))


def test_results_before_any_enqueue_are_a_fault(monkeypatch):
    """An eager dequeue of a queue that no program enqueues to gives an empty list."""
    calls = [("outfeed", {"slot": 0}), ("dequeue", {"slot": 0})]
    assert run_calls(calls) is None

    monkeypatch.setattr(IPUOutfeedQueue, "dequeue", lambda queue: [1.0])

    assert "[] must come" in str(run_calls(calls))


def test_a_fault_is_shown_with_the_calls_that_it_needs(monkeypatch):
    """Found among random sequences, shortened, and as a script that shows it again."""
    real = IPUOutfeedQueue.dequeue
    monkeypatch.setattr(
        IPUOutfeedQueue, "dequeue", lambda queue: double_the_first(real(queue, False))
    )
    monkeypatch.setattr("call_sequences.running.sequence", lambda seed, number: CALLS)
    (found,) = run_sequences(7, range(3))
    head, _, text = found.partition("\n\n")

    assert head.startswith("IPUFEED_TEST_SEED=7, sequence 0: ")
    assert text.count("world.") == 4  # neither the other device nor the loop
    with pytest.raises(FaultError):
        exec(text, {})


def test_calls_are_left_out_as_long_as_the_rest_fails():
    """What is left are the calls without which nothing fails."""
    calls = [(name, {}) for name in "abcdef"]
    needed = [("b", {}), ("e", {})]

    assert shrink(calls, lambda fewer: all(n in fewer for n in needed)) == needed


def test_a_seed_and_a_number_are_a_sequence():
    """The same again for the same two, and another one for others."""
    assert sequence(3, 4) == sequence(3, 4)
    assert sequence(3, 4) != sequence(3, 5)
    assert sequence(3, 4) != sequence(4, 4)
    assert script(sequence(3, 4)) in report(3, 4, sequence(3, 4), "what")


CANCELLED = [
    ("outfeed", {"slot": 0, "last": True}),
    ("infeed", {"slot": 0, "size": 6, "gated_at": 3}),  # 0, 1, 2
    ("cancel", {"infeed": 0, "outfeed": 0, "count": 9}),
    ("dequeue", {"slot": 0}),
    ("dequeue", {"slot": 0}),  # nothing is left, whichever it was
]


@pytest.mark.parametrize(("change", "fault"), [(0, None), (-1, None), (-2, "not [2")])
def test_the_last_enqueue_of_a_cancelled_program_may_have_failed(
    monkeypatch, change, fault
):
    """A LAST queue then has the result before it, and no older one."""
    real = IPUOutfeedQueue.dequeue
    # What is there must be 2, or 1 if the cancellation was faster: planted as if it were.
    monkeypatch.setattr(
        IPUOutfeedQueue,
        "dequeue",
        lambda queue: tf.where(real(queue) > 0, tf.constant(2.0 + change), -1.0),
    )

    found = run_calls(CANCELLED)

    assert found is None if fault is None else fault in str(found)


def test_what_may_have_come_is_known_where_the_queue_knows_it():
    """A fresh queue has a signature or none; one with results has one of several."""
    one = Signature("float32", (), "plain", 1)
    fresh = OutfeedModel(True)

    fresh.put_or_not(one, [1.0], kept=False)
    assert (fresh.kept, fresh.take_last()) == (None, [[]])
    fresh.put_or_not(one, [1.0], kept=True)
    assert fresh.results == [[1.0]]
    assert fresh.instead == []
    fresh.put_or_not(one, [2.0], kept=True)
    fresh.put_or_not(one, [3.0], kept=True)
    assert fresh.take_last() == [[[3.0]], [[2.0]], [[1.0]]]
    assert fresh.take_last() == [[]]
    fresh.put_or_not(one, [4.0], kept=True)
    fresh.put(one, [5.0])  # a later result is the last one in any case
    assert fresh.take_last() == [[[5.0]]]
