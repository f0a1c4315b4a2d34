"""The other processes of a group, as one of them observes them: alive, failed or gone.

    reach()        does a server listen at an address?           a connection
    Peer.state()   the state of its programs with collectives    an op, run in its server
    Peers          all of them: which ones a collective waits for, and why

A collective waits for all processes. A process whose program has failed does not take part,
though it is alive and listens; so a waiting process queries its state.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import tensorflow as tf

from ipufeed import _native
from ipufeed.tf_types import Session, Tensor

MOST_IPUS = 1024  # kMostIpus of ipufeed/cc/core/ipus.h: streams of an IPU device
# The time limit of a query; a later answer is used by the next poll.
ANSWER_MS = 5000
# The interval at which a wait checks whether the peers are alive.
POLL_S = 0.5

# The error of a collective that has lost a peer, and how long the peer may take to exit.
LOST_PEER = re.compile(
    r"from remote target /job:worker/replica:0/task:(\d+) .*"
    r"(?:Socket closed|Connection reset|failed to connect|recvmsg)",
    re.DOTALL,
)
LEAVING_S = 2.0

SAME_PROGRAMS = (
    "All must run the same programs, with the same collectives in each and as many steps: "
    "give each process as many batches, and restart all processes."
)


class Failure(NamedTuple):
    """A failed program on an IPU device of a process.

    Attributes:
        run: Its number among those with collectives between processes, from 1.
        code: The code of its error, one of absl's.
        message: The message of its error.
    """

    run: int
    code: int
    message: str


class PeerState(NamedTuple):
    """The programs on one of the IPU devices of a process.

    Attributes:
        begun: The number of the last program with collectives between processes; or 0.
        ended: The number of the last that has ended without an error.
        failures: The last failed programs, the latest first.
        waits: By stream on which a program waits in a collective: the number of the
            program, that of the collective, and its description.
    """

    begun: int
    ended: int = 0
    failures: Sequence[Failure] = ()
    waits: Mapping[int, tuple[int, int, str]] = MappingProxyType({})


class Request(NamedTuple):
    """A collective between processes, as the core requests it; without its data.

    Attributes:
        stream: Collectives of one stream follow each other: see processes.h.
        reduction: Number of one of MERGES of processes.py.
        mean: Whether the result is divided by the processes.
        dtype: TensorFlow's number of the dtype.
        run: Number of the program among those with collectives: see collective_runs.h.
        number: The number of the collective, among those of the stream.
        what: Its description.
    """

    stream: int
    reduction: int
    mean: bool
    dtype: int
    run: int
    number: int
    what: str

    @property
    def device(self) -> int:
        """Number of the IPU device."""
        return self.stream // MOST_IPUS

    @property
    def key(self) -> int:
        """The key of the collective: equal in all processes, whatever the program."""
        return ((self.stream * 4 + self.reduction) * 2 + self.mean) * 128 + self.dtype


class Peer:
    """Another process.

    Args:
        index: Its number.
        address: At which it listens.

    Threads: any; the IPUs of a pipeline wait on one each.
    """

    def __init__(self, index: int, address: str) -> None:
        self.index, self.address = index, address
        self.seen = (
            False  # whether it has listened before: if it then does not, it has gone
        )
        self.lock = threading.Lock()  # guards `querying`
        # The session and the tensors that it runs; used by the thread `querying` alone.
        self.query: tuple[Session, list[Tensor]] | None = None
        self.querying: threading.Thread | None = None
        self.last: list[PeerState] = []

    def check(self) -> OSError | None:
        """Checks whether it listens; returns the error if it did before and has gone."""
        error = reach(self.address)
        if error is None:
            self.seen = True
        return error if self.seen else None

    def state(self, device: int, *, waits: bool = False) -> PeerState | None:
        """Returns the last known state of an IPU device, or None; queries a newer one.

        Args:
            device: Its number.
            waits: Whether to wait for the answer of that query. Default: False.
        """
        if waits:  # also for a query in progress, whose answer may be older
            self.start_query().join(ANSWER_MS / 1000)
            self.start_query().join(ANSWER_MS / 1000)
        else:
            self.start_query()
        return self.last[device] if self.last else None

    def start_query(self) -> threading.Thread:
        """Starts a query unless one is in progress; returns its thread."""
        with self.lock:
            if self.querying is None or not self.querying.is_alive():
                self.querying = threading.Thread(target=self.run_query, daemon=True)
                self.querying.start()
            return self.querying

    def run_query(self) -> None:
        """Queries the state once. A failed query changes nothing: see `reach`."""
        try:
            session, tensors = self.session()
            begun, *failed, ended, waits = session.run(tensors)
        except tf.errors.OpError:
            self.query = None
            return
        self.last = [
            PeerState(
                int(of_begun),
                int(of_ended),
                [
                    Failure(int(run), int(code), message.decode(errors="replace"))
                    for run, code, message in zip(*failures, strict=True)
                    if run > 0
                ],
                waits_of(text.decode()),
            )
            for of_begun, of_ended, text, *failures in zip(
                begun, ended, waits, *failed, strict=True
            )
        ]

    def session(self) -> tuple[Session, list[Tensor]]:
        """Returns the session on the peer's server, and its tensors."""
        if self.query is None:
            with tf.Graph().as_default() as graph:
                tensors = _native.load().ipufeed_collective_runs()
            config = tf.compat.v1.ConfigProto(
                device_count={"IPU": 0},
                # This session uses no device of another process.
                device_filters=[f"/job:worker/task:{self.index}"],
                operation_timeout_in_ms=ANSWER_MS,
            )
            target = f"grpc://{self.address}"
            self.query = tf.compat.v1.Session(target, graph, config), tensors
        return self.query


class Peers:
    """The other processes of a group.

    Args:
        addresses: At which the processes listen, this one included.
        index: The index of this one.

    Threads: any.
    """

    def __init__(self, addresses: list[str], index: int) -> None:
        self.count, self.index = len(addresses), index
        self.others = [
            Peer(other, address)
            for other, address in enumerate(addresses)
            if other != index
        ]

    def watch(self) -> None:
        """Starts a thread that polls the peers until each has been seen to listen."""

        def poll() -> None:
            while unseen := [each for each in self.others if not each.seen]:
                for each in unseen:
                    each.check()
                time.sleep(POLL_S)

        threading.Thread(target=poll, daemon=True).start()

    def all_were_there(self) -> None:
        """Records that all took part in a collective, perhaps between two polls."""
        for each in self.others:
            each.seen = True

    def any_listens(self) -> bool:
        """Whether one of them listens now."""
        return any(each.check() is None and each.seen for each in self.others)

    def waits_for(self, request: Request) -> str:
        """Returns which peers are late, as a sentence for the log; "" if none is."""
        late = []
        for each in self.others:
            state = each.state(request.device) if each.seen else None
            if not each.seen:
                late.append(f"{self.name(each)}: nothing has listened there so far")
            elif state is None:
                late.append(f"{self.name(each)}, which listens and does not answer")
            elif state.begun < request.run:
                late.append(f"{self.name(each)}, which has begun {state.begun} of them")
            elif state.waits.get(request.stream, ())[:2] != (
                request.run,
                request.number,
            ):
                late.append(f"{self.name(each)}, which has not come to this collective")
        if not late:
            return ""
        return (
            f"Process {self.index} of {self.count} waits in a collective of program "
            f"number {request.run} of those with collectives, for "
            f"{'; for '.join(late)}."
        )

    def check_alive(self) -> None:
        """Raises tf.errors.AbortedError if a peer that has listened does not any more."""
        for each in self.others:
            if (error := each.check()) is not None:
                raise tf.errors.AbortedError(
                    None,
                    None,
                    f"{self.name(each, 'Process')}, has gone: {error}. Process "
                    f"{self.index} cannot go on alone: restart all processes.",
                ) from error

    def check_runs(self, request: Request, *, waits: bool = False) -> bool:
        """Checks that the peers are in the same program, and can take part in a collective.

        Args:
            request: The collective in which this process waits.
            waits: Whether to wait for the peers' newest answers. Default: False.

        Returns:
            Whether a peer has ended the program already: in its view the collective is
            complete, or is not part of the program.

        Raises:
            tf.errors.OpError: A peer has failed in the program, or waits in another
                collective.
        """
        is_past = False
        run = request.run
        for each in self.others:
            known = each.seen or waits
            state = each.state(request.device, waits=waits) if known else None
            if state is None:
                continue
            failure = next(
                (found for found in state.failures if found.run == run), None
            )
            if failure is not None:
                raise tf.errors.OpError(
                    None,
                    None,
                    f"{self.name(each, 'Process')}, has failed in the program in which "
                    f"process {self.index} waits for it. Its error: {failure.message}",
                    failure.code,
                )
            if state.failures and state.failures[0].run > run:
                raise tf.errors.FailedPreconditionError(
                    None,
                    None,
                    f"{self.name(each, 'Process')}, is past the program in which process "
                    f"{self.index} waits for it: restart all processes. Its last error: "
                    f"{state.failures[0].message}",
                )
            other = state.waits.get(request.stream)
            if (
                other is not None
                and other[:2] == (run, request.number)
                and other[2] != request.what
            ):
                raise tf.errors.FailedPreconditionError(
                    None,
                    None,
                    f"{self.name(each, 'Process')}, has come to {other[2]}, where process "
                    f"{self.index} has come to {request.what}. {SAME_PROGRAMS}",
                )
            is_past = is_past or state.ended >= run
        return is_past

    def check_left(self, error: Exception) -> None:
        """Raises tf.errors.AbortedError if a collective failed because a peer has gone.

        A process that exits closes its connections first, and listens a moment longer.
        """
        found = LOST_PEER.search(str(error))
        deadline = time.monotonic() + (LEAVING_S if found else 0.0)
        while True:
            self.check_alive()
            if time.monotonic() >= deadline:
                break
            time.sleep(LEAVING_S / 20)
        for each in self.others:
            if found is not None and each.index == int(found[1]):
                raise tf.errors.AbortedError(
                    None,
                    None,
                    f"{self.name(each, 'Process')}, has broken off a collective with "
                    f"process {self.index}, and still listens: see its log.",
                ) from error

    def name(self, peer: Peer, noun: str = "process") -> str:
        """Describes a peer, for messages."""
        return f"{noun} {peer.index} of {self.count}, at {peer.address}"


def waits_of(text: str) -> dict[int, tuple[int, int, str]]:
    """Parses the waits by stream, from the op's lines; see collective_runs_op.cc."""
    found = {}
    for line in text.splitlines():
        stream, run, number, what = line.split(" ", 3)
        found[int(stream)] = int(run), int(number), what
    return found


def reach(address: str) -> OSError | None:
    """Connects to an address; returns the error, or None if a server listens."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        return error
    return None
