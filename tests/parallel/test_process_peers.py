"""Addresses of other processes, and what a process finds out about its peers."""

import logging

import pytest
import tensorflow as tf
from helpers import cluster, free_addresses
from replicated import configure

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.collectives import addresses, peers, processes
from ipufeed.parallel.collectives import ops as collectives


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
    """TensorFlow's servers have no authentication; the warning has the remedy."""
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


def test_a_collective_that_failed_for_itself_names_no_peer(monkeypatch):
    """All listen, and its error names none of them."""
    monkeypatch.setattr(peers, "reach", lambda address: None)
    group = peers.Peers(["host:1", "host:2"], 0)

    assert group.check_left(tf.errors.InternalError(None, None, "x")) is None


def test_a_long_wait_names_the_processes_that_are_behind(monkeypatch):
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
