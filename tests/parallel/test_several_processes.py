"""Replicas in two processes: the same numbers as in one, and no wait for one gone."""

import re

import numpy as np
import pytest
from helpers import run_cluster
from models import Trained, assert_equal, unsplit, v1

pytestmark = pytest.mark.long

COUNT = 2


@pytest.fixture(scope="module")
def results():
    """What each process has printed, by the case."""
    return run_processes()


def run_processes(*arguments):
    """What each process of process.py says, by the case."""
    ended = run_cluster("process.py", *arguments)
    for code, _, err in ended:
        assert code == 0, err
    return [said for _, said, _ in ended]


@pytest.mark.process
@pytest.mark.parametrize("ipus", [1, 2])
def test_sums_are_over_the_replicas_of_all_processes(results, ipus):
    """In each dtype that replicas add up; each process has the same bits."""
    replicas = COUNT * ipus
    total = replicas * (replicas + 1) / 2
    for index, process in enumerate(results):
        *sums, mean, own = process[f"sums on {ipus}"]
        for each in sums:
            assert each == [total, 2 * total, 3 * total]
        assert mean == (replicas - 1) / 2
        assert own == index * ipus  # replica 0 of the process gives the results


@pytest.mark.process
def test_collectives_between_processes_keep_their_thread(results):
    """A hundred of them; after a check of the peers there may be another thread."""
    for process in results:
        assert process["many sums"] == [100.0 * COUNT]
        assert process["threads"] < 10


@pytest.mark.process
def test_a_program_that_is_stopped_in_a_collective_ends():
    """Its thread waits on; later collectives fail, since the processes are out of step."""
    first, _ = run_processes("stopped")

    ((kind, text),) = first["stopped"]
    assert kind == "CancelledError"
    assert "The program was stopped while process 0 waited for the others" in text
    assert "the test" in text
    kind, text = first["at once"]
    assert kind == "FailedPreconditionError"
    assert "while program number 1 waits in one there" in text
    assert "one after the other (of several in one Session.run, let each come" in text
    assert "or on another device each" in text
    kind, text = first["next"]
    assert kind == "FailedPreconditionError"
    assert "Process 0 of 2 has given up a collective" in text
    assert "What came then: The program was stopped." in text


@pytest.mark.process
@pytest.mark.parametrize("ipus", [1, 2])
def test_a_sum_of_nothing_is_nothing(results, ipus):
    """A tensor without elements has no memory to exchange."""
    for process in results:
        assert process[f"sums of nothing on {ipus}"] == [[], [], [], [1.0, 1.0]]


@pytest.mark.process
@pytest.mark.parametrize("ipus", [1, 2])
def test_all_replicas_of_all_processes_are_not_a_group(results, ipus):
    """Its sums and means are those without one."""
    indices = range(COUNT * ipus)
    for process in results:
        assert process[f"groups of all on {ipus}"] == [sum(indices), np.mean(indices)]


@pytest.mark.process
def test_a_group_of_some_replicas_of_several_processes_is_refused(results):
    """With what can be done."""
    for process in results:
        kind, text = process["groups across"]
        assert kind == "UnimplementedError"
        assert "in groups of 3 replicas, and the 2 processes have 2 each" in text
        assert "without a group or with one of 4" in text
        assert "groups of at most its 2 replicas" in text


@pytest.mark.process
def test_the_executor_reduces_between_processes_too(results):
    """It runs one copy of a program, in each process."""
    for index, process in enumerate(results):
        assert process["sums in executor mode"][0] == [3.0, 6.0, 9.0]
        assert process["sums in executor mode"][-1] == index


@pytest.mark.process
def test_what_does_not_go_between_processes_is_refused(results):
    """With what does; in groups within a process all collectives do."""
    for index, process in enumerate(results):
        kind, text = process["gather"]
        assert kind == "UnimplementedError"
        assert "groups of at most its 1 replicas" in text
        own = [2.0 * index, 2.0 * index + 1]
        assert process["groups within a process"] == own


@pytest.mark.process
def test_a_process_may_fail_in_a_program_of_its_own(results):
    """The others wait for its next collective; the group of that program is its own."""
    assert results[1]["evaluation"][0] == "OutOfRangeError"
    for process in results:
        assert process["sums after an evaluation of one"] == process["sums on 2"]


@pytest.mark.process
@pytest.mark.parametrize("ipus", [2, 4])
def test_pipelines_in_two_processes_train_as_the_unsplit_model(results, ipus):
    """Each takes every second mini-batch; copies in both have the same weights."""
    copies = COUNT * ipus // 2
    expected = unsplit(
        lambda: v1.train.MomentumOptimizer(0.05, 0.9), 2, 4, 3, replicas=copies
    )
    trained = [process[f"pipeline on {ipus}"] for process in results]
    losses = np.stack([each["losses"] for each in trained], axis=1)
    weights = [np.array(each, np.float32) for each in trained[0]["weights"]]

    assert_equal(Trained(np.reshape(losses, -1), weights), expected)
    assert trained[0]["weights"] == trained[1]["weights"]


@pytest.mark.process
def test_a_process_that_has_gone_is_named(results):
    """In place of a wait without end."""
    kind, text = results[0]["alone"]

    assert kind == "AbortedError"
    assert "Process 1 of 2, at localhost:" in text
    assert "has gone" in text


@pytest.mark.process
def test_a_process_that_goes_before_its_first_collective_is_named():
    """It has been seen, and is not one that comes later."""
    kind, text = run_processes("early")[0]["alone"]

    assert kind == "AbortedError"
    assert "Process 1 of 2, at localhost:" in text
    assert "has gone" in text


@pytest.mark.process
@pytest.mark.parametrize(
    ("elements", "then"),
    [(2, []), (0, []), (0, ["leaves"])],
    ids=["in the middle", "from the start", "and leaves"],
)
def test_a_process_that_fails_in_a_program_is_named(elements, then):
    """A process that waits for it gets its error, type and words; also if it ends by it."""
    first, second = (
        each["starved"] for each in run_processes("starved", str(elements), *then)
    )

    assert second[0] == first[0] == "OutOfRangeError"
    assert f"has given all of its {elements} elements" in second[1]
    assert "Process 1 of 2, at localhost:" in first[1]
    assert "has failed in the program in which process 0 waits for it." in first[1]
    assert first[1].endswith(f"Its error: {second[1]}")


@pytest.mark.process
@pytest.mark.parametrize(
    ("elements", "steps", "size"),
    [
        (2, 4, 1),
        pytest.param(2, 4, 3, marks=pytest.mark.soak),
        pytest.param(0, 4, 1, marks=pytest.mark.soak),
        (9, 6, 1),
    ],
    ids=["it has failed", "other sizes", "at once", "it does more"],
)
def test_collectives_of_different_programs_are_not_mixed(elements, steps, size):
    """A process that goes on to another program is not taken for one in the first."""
    first, second = run_processes("mixed", str(elements), str(steps), str(size))

    if steps == 4:
        assert second["first"][0] == first["first"][0] == "OutOfRangeError"
        assert "has failed in the program in which process 0 waits" in first["first"][1]
    else:
        assert first["first"] == [8.0]
        assert second["first"][0] == "FailedPreconditionError"
    for results in (first, second):
        for name in ("second", "third"):
            kind, text = results[name]
            assert kind == "FailedPreconditionError"
            assert "restart all processes" in text


@pytest.mark.process
@pytest.mark.parametrize(
    ("steps", "size", "kind", "words"),
    [
        (
            4,
            1,
            "mean",
            "has come to a mean (cross_replica_mean, CrossReplicaOptimizer)",
        ),
        pytest.param(
            *(4, 3, "sum", "another process is in another program|has come to a sum"),
            marks=pytest.mark.soak,
        ),
        (2, 1, "sum", "another process is in another program, or has ended this one"),
    ],
    ids=["a mean for a sum", "other sizes", "fewer"],
)
def test_another_program_of_the_same_number_is_an_error(steps, size, kind, words):
    """Collectives that cannot meet are not waited for; nor is a program that has ended."""
    first, second = run_processes("unlike", str(steps), str(size), kind)

    assert first["program"][0] == "FailedPreconditionError"
    assert re.search(words if size > 1 else re.escape(words), first["program"][1])
    assert "restart all processes" in first["program"][1]
    if steps == 4:
        assert second["program"][0] == "FailedPreconditionError"
    else:
        assert second["program"] == [4.0]  # the collectives that both have had
