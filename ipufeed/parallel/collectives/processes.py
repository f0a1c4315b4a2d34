"""Replicas in several processes: their collectives use those of TensorFlow.

    process 0:  replicas --> one tensor --+                  +--> replicas
    process 1:  replicas --> one tensor --+-- ring reduce ---+--> replicas

    TF_CONFIG='{"cluster": {"worker": ["localhost:2301", "localhost:2302"]},
                "task": {"type": "worker", "index": 0}}'

Each process configures `experimental.multi_replica_distribution` with the number of
processes and its own index, runs the same program, and feeds it its own part of the data
(`dataset.shard(process_count, process_index)`). The addresses are in TF_CONFIG,
as for TensorFlow's own strategies; each process listens at its own as soon as it is
configured, and polls those of its peers. Reductions are computed first within each process,
then between the processes, and every process gets the same bits.

Security: TensorFlow's server has neither encryption nor authentication, and listens on
all network interfaces, also for an address such as "localhost:2301". A process that
reaches the port can run any TensorFlow op in this one, which includes reading and writing
files. Use a network that only trusted machines reach; see docs/programs.md.

Source: TensorFlow's ring reduction between the servers of a cluster, as of its
MultiWorkerMirroredStrategy; the configuration is Graphcore's.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipufeed import _native
from ipufeed.device.log import LOGGER
from ipufeed.parallel.collectives.addresses import addresses, warn_of_network
from ipufeed.parallel.collectives.peers import (
    LEAVING_S,
    POLL_S,
    SAME_PROGRAMS,
    Peers,
    Request,
)
from ipufeed.tf_types import ConfigProto

if TYPE_CHECKING:
    from collections.abc import Callable

# Each collective carries two tags that are equal in all processes if these are in the same
# program: the program's number modulo this, and its square (if the means of both agree,
# the numbers are equal). They are small enough for the dtype to represent the sum of the
# squares exactly: of 28 processes in a bfloat16, of 64 in a float32.
TAGS = {2: 4, 4: 512, 8: 512}  # by the dtype's size in bytes
TAG_COUNT = 2  # kTags of ipufeed/cc/replicas/collective_thread.h
# After this time a wait logs the processes that are late; then after twice as long, and so
# on.
LOG_S = 10.0

# After a failed program the process stays up to LINGER_S so that its peers can fetch the
# error. They poll each POLL_S, and get the answer one poll later.
LINGER_S = 5.0

# By Reduction of ipufeed/cc/replicas/replicas.h.
MERGES = ("Add", "Mul", "Min", "Max")


class Wait:
    """A collective that has waited for long, as the checks of its peers see it.

    Args:
        request: The collective.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.start, self.pause_s = time.monotonic(), LOG_S
        self.past_since: float | None = None


class InProgress(NamedTuple):
    """A collective whose call has not returned.

    Attributes:
        request: The collective.
        wanted: [0] is 0 once its program has given it up.
    """

    request: Request
    wanted: ctypes._Pointer[ctypes.c_int]


class Group:
    """This process and its peers, the processes of TF_CONFIG.

    Args:
        count: The number of processes that TF_CONFIG must have.
        index: The index of this one.

    Raises:
        tf.errors.FailedPreconditionError: TF_CONFIG is not set, or contradicts this.

    Threads: any; collectives of one stream follow each other.

    Security: see the module; an address of another machine is logged as a warning.
    """

    def __init__(self, count: int, index: int) -> None:
        self.count, self.index = count, index
        found = addresses(count, index)
        self.lock = threading.Lock()
        # By request.key: reduces an array.
        self.calls: dict[int, Callable[[NDArray[Any]], NDArray[Any]]] = {}
        self.results: dict[int, NDArray[Any]] = {}  # by stream: the last one
        self.in_progress: dict[int, InProgress] = {}  # by stream
        self.waits: dict[int, Wait] = {}  # likewise, of those that are late
        # Why further collectives fail; "" while they can run.
        self.over = ""
        try:
            self.server = tf.distribute.Server(
                {"worker": found},
                job_name="worker",
                task_index=index,
                config=self._config({"CPU": 1, "IPU": 0}),
            )
        except tf.errors.OpError as error:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"Process {index} cannot listen at {found[index]}, which TF_CONFIG gives "
                f"it: {error.message}",
            ) from error
        LOGGER.info(
            "Process %d of %d listens at %s (on all network interfaces).",
            index,
            count,
            found[index],
        )
        warn_of_network(found)
        self.peers = Peers(found, index)
        self.peers.watch()
        _native.at_exit(self.linger)

    def linger(self) -> None:
        """Waits before exit while peers may fetch the error of a failed program.

        An error that came from a peer is known to all already.
        """
        if self.over or not _native.entry().ipufeed_last_collective_run_failed():
            return
        end = time.monotonic() + LINGER_S
        with contextlib.suppress(KeyboardInterrupt):
            while time.monotonic() < end and self.peers.any_listens():
                time.sleep(POLL_S / 5)

    def _config(self, device_count: dict[str, int]) -> ConfigProto:
        config = tf.compat.v1.ConfigProto(device_count=device_count)
        config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        return config

    def call(self, request: Request) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """Returns the function that reduces an array with the peers; makes it once."""
        if (found := self.calls.get(request.key)) is not None:
            return found
        with self.lock:
            if request.key in self.calls:
                return self.calls[request.key]
            with (
                tf.Graph().as_default() as graph,
                tf.device(f"/job:worker/task:{self.index}/device:CPU:0"),
            ):
                value = tf.compat.v1.placeholder(
                    tf.dtypes.as_dtype(request.dtype), [None]
                )
                result = tf.raw_ops.CollectiveReduce(
                    input=value,
                    group_size=self.count,
                    group_key=1,
                    instance_key=request.key,
                    merge_op=MERGES[request.reduction],
                    final_op="Div" if request.mean else "Id",
                    subdiv_offsets=[0],
                    communication_hint="ring",
                )
            config = self._config({})
            # This session uses no device of a peer, and must not wait for them to be
            # there.
            config.device_filters.append(f"/job:worker/task:{self.index}")
            session = tf.compat.v1.Session(self.server.target, graph, config)
            call: Callable[[NDArray[Any]], NDArray[Any]]
            call = session.make_callable(result, [value])
            self.calls[request.key] = call
            return call

    def reduce(
        self,
        data: NDArray[Any],
        request: Request,
        wanted: ctypes._Pointer[ctypes.c_int],
    ) -> NDArray[Any]:
        """Reduces an array over the processes. Waits until all have come to it.

        Args:
            data: 1-D array; the last TAG_COUNT elements are overwritten.
            request: The collective.
            wanted: [0] becomes 0 when its program has given it up.

        Returns:
            The result, with the reduced tags; its memory is valid until the next reduction
            of the stream.

        Raises:
            tf.errors.OpError: A peer cannot be reached, or has gone, or is in another
                program; or the program has failed in a peer: that error's type and
                message. After that all collectives fail.

        Threads: any; while it waits, another one calls `check`.
        """
        for each in list(self.in_progress.values()):
            if not each.wanted[0]:
                self.give_up("The program was stopped.")
        if self.over:
            raise tf.errors.FailedPreconditionError(None, None, self.over)
        self.in_progress[request.stream] = InProgress(request, wanted)
        try:
            tag = request.run % TAGS[data.dtype.itemsize]
            tags = np.array([tag, tag * tag], data.dtype)
            data[-TAG_COUNT:] = tags
            try:
                found = self.call(request)(data)
            except tf.errors.OpError as error:
                self.peers.check_left(error)
                if re.search("[Ss](ize|hape) [Mm]ismatch", str(error)):
                    self.refuse_another_program(request)
                raise
            self.peers.all_were_there()
            if not np.array_equal(found[-TAG_COUNT:], self.reduced(tags, request)):
                self.refuse_another_program(request)
            if not wanted[0]:
                self.give_up("The program was stopped.")
            self.results[request.stream] = found
            return found
        except tf.errors.OpError as error:
            self.give_up(error.message)
            raise
        finally:
            del self.in_progress[request.stream]
            self.waits.pop(request.stream, None)

    def reduced(self, tags: NDArray[Any], request: Request) -> NDArray[Any]:
        """Returns what the reduction makes of tags that all processes have in common."""
        if request.mean or MERGES[request.reduction] in ("Min", "Max"):
            return tags
        return (
            tags**self.count
            if MERGES[request.reduction] == "Mul"
            else tags * self.count
        )

    def give_up(self, why: str) -> None:
        """Makes all further collectives fail, with the reason of the first failure."""
        self.over = self.over or (
            f"Process {self.index} of {self.count} has given up a collective with the "
            "others before, and they are no longer in step: restart all processes. "
            f"What came then: {why}"
        )

    def check(self, request: Request) -> None:
        """Checks the peers for which a collective waits; logs which are late.

        Raises:
            tf.errors.OpError: A peer has gone, or has failed, or is in another program.

        Threads: any; not two at once for one stream.
        """
        wait = self.waits.get(request.stream)
        if wait is None or wait.request != request:
            wait = self.waits[request.stream] = Wait(request)
        try:
            self.peers.check_alive()
            # A peer that has ended the program has taken part in this collective, whose
            # result then arrives soon; or it never will.
            if not self.peers.check_runs(request):
                wait.past_since = None
            elif wait.past_since is None:
                wait.past_since = time.monotonic()
            elif time.monotonic() - wait.past_since > LEAVING_S:
                self.refuse_another_program(request)
        except tf.errors.OpError as error:
            self.give_up(error.message)
            raise
        if time.monotonic() - wait.start > wait.pause_s:
            wait.pause_s *= 2
            if missing := self.peers.waits_for(request):
                LOGGER.warning("%s", missing)

    def refuse_another_program(self, request: Request) -> None:
        """Raises tf.errors.OpError: collectives of different programs were combined."""
        self.peers.check_runs(request, waits=True)
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"Process {self.index} of {self.count} has come to {request.what} in its "
            f"program number {request.run} with collectives, and another process is in "
            f"another program, or has ended this one, or has come to another collective. "
            f"{SAME_PROGRAMS}",
        )
