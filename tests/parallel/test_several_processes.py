"""Replicas in two processes: the same numbers as in one, and no wait for one gone."""

import json
import logging
import os
import pathlib
import re
import subprocess
import sys

import children
import numpy as np
import pytest
import tensorflow as tf
from helpers import cluster, free_addresses
from models import Trained, assert_equal, unsplit, v1
from replicated import configure

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import addresses, peers, processes
from ipufeed.parallel.collectives import ops as collectives

PROGRAMS = pathlib.Path(__file__).parents[1] / "support"
LIMIT_S = 240.0  # only a hang gets there
COUNT = 2


@pytest.fixture(scope="module")
def results():
    """What each process has printed, by the case."""
    return run_processes()


def run_processes(*arguments):
    """What each process of process.py says, by the case."""
    addresses = free_addresses(COUNT)
    started = [
        children.Popen(
            [sys.executable, str(PROGRAMS / "process.py"), *arguments],
            env={
                **os.environ,
                "TF_CONFIG": cluster(addresses, index),
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(COUNT)
    ]
    try:
        ended = [process.communicate(timeout=LIMIT_S) for process in started]
    finally:
        for process in started:
            process.kill()  # if one has not ended, the other waits for it
    for process, (_, err) in zip(started, ended, strict=True):
        assert process.returncode == 0, err
    results = [[json.loads(line) for line in out.splitlines()] for out, _ in ended]
    return [{key: line[key] for line in lines for key in line} for lines in results]


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("localhost:2301", True),
        ("127.0.0.1:2301", True),
        ("127.3.2.1:2301", True),
        ("[::1]:2301", True),
        ("worker.localhost:2301", True),
        ("10.0.0.7:2301", False),
        ("[2001:db8::7]:2301", False),
        ("localhost.example.org:2301", False),
        ("0.0.0.0:2301", False),
    ],
)
def test_an_address_outside_of_the_machine_is_warned_of(caplog, address, loopback):
    """TensorFlow's servers have no authentication; the warning has the way out."""
    with caplog.at_level(logging.WARNING, logger="ipufeed"):
        addresses.warn_of_network(["localhost:2300", address])
    if loopback:
        assert not caplog.records
        return
    (record,) = caplog.records
    assert record.getMessage().count(address) == 1
    assert "no authentication" in record.getMessage()
    assert "only trusted machines" in record.getMessage()


def test_a_group_warns_when_it_begins_to_listen(monkeypatch, caplog, clean_system):
    """Once; the address of another process is enough."""
    del clean_system
    monkeypatch.setattr(peers.Peers, "watch", lambda self: None)
    addresses = [*free_addresses(1), "192.0.2.1:2301"]
    monkeypatch.setenv("TF_CONFIG", cluster(addresses, 0))
    with caplog.at_level(logging.WARNING, logger="ipufeed"):
        group = processes.Group(2, 0)
    group.over = "the test is over"  # nothing lingers for it
    warnings = [r.getMessage() for r in caplog.records if "firewall" in r.getMessage()]
    assert len(warnings) == 1
    assert "192.0.2.1:2301" in warnings[0]
    assert addresses[0] not in warnings[0]


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
@pytest.mark.parametrize("ipus", [1, 2])
def test_a_sum_of_nothing_is_nothing(results, ipus):
    """A tensor without elements has no memory to exchange."""
    for process in results:
        assert process[f"sums of nothing on {ipus}"] == [[], [], [], [1.0, 1.0]]


@pytest.mark.process
@pytest.mark.parametrize("ipus", [1, 2])
def test_a_group_of_all_replicas_of_all_processes_is_no_group(results, ipus):
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


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        (2, r"Process 1 of 2, at host:2, has gone: Connection refused"),
        (
            9999,
            r"Process 1 of 2, at host:2, has broken off a collective with process 0",
        ),
    ],
)
def test_a_process_is_named_that_breaks_off_and_listens_for_a_moment_more(
    monkeypatch, looks, words
):
    """Its connections are the first to go: the error of the collective names a task."""
    asked = []

    def reach(address):
        asked.append(address)
        return (
            ConnectionRefusedError("Connection refused") if len(asked) > looks else None
        )

    monkeypatch.setattr(peers, "reach", reach)
    monkeypatch.setattr(peers, "LEAVING_S", 0.2)
    group = peers.Peers(["host:1", "host:2"], 0)
    group.check_alive()
    lost = tf.errors.UnavailableError(
        None,
        None,
        "Additional GRPC error information from remote target /job:worker/replica:0/"
        "task:1 while calling /tensorflow.WorkerService/RecvBuf:\n:UNKNOWN:Error "
        'received from peer  {grpc_message:"Socket closed", grpc_status:14}',
    )

    with pytest.raises(tf.errors.AbortedError, match=words):
        group.check_left(lost)


def test_a_collective_that_failed_for_itself_blames_nobody(monkeypatch):
    """All listen, and its error names none of them."""
    monkeypatch.setattr(peers, "reach", lambda address: None)
    group = peers.Peers(["host:1", "host:2"], 0)

    assert group.check_left(tf.errors.InternalError(None, None, "x")) is None


def test_a_long_wait_says_who_is_not_as_far(monkeypatch):
    """A peer that never listened, and one that listens but has not begun that program."""
    monkeypatch.setattr(
        peers, "reach", lambda address: OSError("no") if address == "host:2" else None
    )
    group = peers.Peers([f"host:{number}" for number in range(1, 5)], 0)
    group.check_alive()
    here = peers.Request(0, 0, False, 1, 3, 7, "a sum")
    group.others[1].last = [peers.PeerState(2)]
    group.others[2].last = [peers.PeerState(3, waits={0: (3, 7, "a sum")})]
    for each in group.others:
        monkeypatch.setattr(each, "run_query", lambda: None)

    assert group.waits_for(here) == (
        "Process 0 of 4 waits in a collective of program number 3 of those with "
        "collectives, for process 1 of 4, at host:2: nothing has listened there "
        "so far; for process 2 of 4, at host:3, which has begun 2 of them."
    )
    monkeypatch.setattr(peers, "reach", lambda address: None)
    group.check_alive()
    group.others[1].last = group.others[2].last
    assert group.waits_for(here).endswith("host:2, which listens and does not answer.")
    group.others[0].last = [peers.PeerState(3, waits={0: (3, 6, "a sum")})]
    assert group.waits_for(here).endswith("which has not come to this collective.")
    group.others[0].last = group.others[2].last
    assert group.waits_for(here) == ""


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


@pytest.mark.parametrize(
    ("variable", "why"),
    [
        (None, "TF_CONFIG must say where they are, and is not set"),
        (cluster(["localhost:1"], 0), "has 1 workers and the index 0"),
        (cluster(["localhost:1"] * 3, 1), "has 3 workers and the index 1"),
        (cluster(["localhost:1"] * 2, 0), "gives several processes one address"),
    ],
    ids=["none", "one", "three", "the same"],
)
def test_addresses_must_fit_the_configuration(clean_system, monkeypatch, variable, why):
    """The error says what TF_CONFIG must be; the next program, of one process, runs."""
    if variable is None:
        monkeypatch.delenv("TF_CONFIG", raising=False)
    else:
        monkeypatch.setenv("TF_CONFIG", variable)
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.experimental.multi_replica_distribution.process_count = 2
    config.configure_ipu_system()

    @tf.function(jit_compile=True)
    def program():
        return collectives.cross_replica_sum(tf.constant(2.0))

    with pytest.raises(tf.errors.FailedPreconditionError, match=why):
        IPUStrategy().run(program)

    configure(1)
    assert IPUStrategy().run(program).numpy() == 2.0
