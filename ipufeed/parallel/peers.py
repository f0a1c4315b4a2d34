"""The other processes of a group, as one of them sees them: who listens, who has failed.

    reach()           does somebody listen at its address?       a connection
    Peer.failures()   which of its programs have failed last?    an op, run in its server

An exchange waits for all processes. One that has failed in its program will not come to
it, though it lives and listens; so who waits asks it.
"""

from __future__ import annotations

import socket
import threading
from typing import Any, NamedTuple

from ipufeed import _native

# How long a question may take. The answer is wanted by then, or at the next look.
ANSWER_MS = 5000


class Failure(NamedTuple):
    """A program on an IPU device of a process that has failed.

    Attributes:
        run: Its number among those that exchange with other processes, from 1.
        code: Of its error, one of absl's.
        message: Of its error.
    """

    run: int
    code: int
    message: str


class Peer:
    """Another process.

    Args:
        index: Its number.
        address: Where it listens.

    Threads: any; the IPUs of a pipeline wait on one each.
    """

    def __init__(self, index: int, address: str) -> None:
        self.index, self.address = index, address
        self.lock = threading.Lock()  # guards the thread
        self.asked: Any = None  # the session, and what it runs; that thread's
        self.asking: threading.Thread | None = None
        self.last: list[list[Failure]] = []

    def failures(self, device: int, *, waits: bool = False) -> list[Failure]:
        """What it has said of an IPU device, the latest first; asks once more.

        Args:
            device: Its number.
            waits: Whether to wait for the answer to that. Default: False.
        """
        if waits:  # for the question before, too, whose answer may be older
            self.question().join(ANSWER_MS / 1000)
            self.question().join(ANSWER_MS / 1000)
        else:
            self.question()
        return self.last[device] if self.last else []

    def question(self) -> threading.Thread:
        """What asks it: the thread that does so already, or a new one."""
        with self.lock:
            if self.asking is None or not self.asking.is_alive():
                self.asking = threading.Thread(target=self.ask, daemon=True)
                self.asking.start()
            return self.asking

    def ask(self) -> None:
        """One question. One that gets no answer changes nothing: see `reach`."""
        import tensorflow as tf

        try:
            session, tensors = self.session()
            found = session.run(tensors)
        except tf.errors.OpError:
            self.asked = None
            return
        self.last = [
            [
                Failure(int(run), int(code), message.decode(errors="replace"))
                for run, code, message in zip(*of_device, strict=True)
                if run > 0
            ]
            for of_device in zip(*found, strict=True)
        ]

    def session(self) -> tuple[Any, Any]:
        """On its server."""
        import tensorflow as tf

        if self.asked is None:
            with tf.Graph().as_default() as graph:
                tensors = _native.load().ipufeed_failed_runs()
            config = tf.compat.v1.ConfigProto(
                device_count={"IPU": 0},
                # The others' devices are no business of this session.
                device_filters=[f"/job:worker/task:{self.index}"],
                operation_timeout_in_ms=ANSWER_MS,
            )
            target = f"grpc://{self.address}"
            self.asked = tf.compat.v1.Session(target, graph, config), tensors
        return self.asked  # type: ignore[no-any-return]


def reach(address: str) -> OSError | None:
    """Why nobody can be reached there; None if somebody listens."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        return error
    return None
