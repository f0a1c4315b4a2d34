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
import functools
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ipufeed import _native
from ipufeed.device.log import LOGGER
from ipufeed.interruptible import run_interruptibly
from ipufeed.parallel.collectives.addresses import addresses, warn_of_network
from ipufeed.parallel.collectives.peers import (
    LEAVING_S,
    POLL_S,
    SAME_PROGRAMS,
    Peers,
    Request,
)
from ipufeed.tf_types import ConfigProto, Session, Tensor

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

INTERNAL = 13  # of absl's status codes
# Each collective carries two tags that are equal in all processes if these are in the same
# program: the program's number modulo this, and its square (if the means of both agree,
# the numbers are equal). They are small enough for the dtype to represent the sum of the
# squares exactly: of 28 processes in a bfloat16, of 64 in a float32.
TAGS = {2: 4, 4: 512, 8: 512}  # by the dtype's size in bytes
# After this time a wait logs the processes that are late; then after twice as long, and so
# on.
LOG_S = 10.0

# After a failed program the process stays up to LINGER_S so that its peers can fetch the
# error. They poll each POLL_S, and get the answer one poll later.
LINGER_S = 5.0

# By Reduction of ipufeed/cc/replicas/replicas.h.
MERGES = ("Add", "Mul", "Min", "Max")

ON_COLLECTIVE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_int),
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_int64,
)


class Group:
    """This process and its peers, the processes of TF_CONFIG.

    Args:
        count: The number of processes that TF_CONFIG must have.
        index: Of this one.

    Raises:
        tf.errors.FailedPreconditionError: TF_CONFIG is not set, or contradicts this.

    Threads: any; collectives of one stream follow each other.

    Security: see the module; an address of another machine is logged as a warning.
    """

    def __init__(self, count: int, index: int) -> None:
        import tensorflow as tf

        self.count, self.index = count, index
        found = addresses(count, index)
        self.lock = threading.Lock()
        self.sessions: dict[int, tuple[Session, Tensor, Tensor]] = {}  # by request.key
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
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(device_count=device_count)
        config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        return config

    def session(self, request: Request) -> tuple[Session, Tensor, Tensor]:
        """Returns the session of such collectives, its input and output; makes it once."""
        import tensorflow as tf

        with self.lock:
            if request.key in self.sessions:
                return self.sessions[request.key]
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
            self.sessions[request.key] = session, value, result
            return session, value, result

    def reduce(
        self, data: NDArray[Any], request: Request, is_wanted: Callable[[], bool]
    ) -> NDArray[Any]:
        """Reduces one array over the processes.

        Args:
            data: 1-D array.
            request: The collective.
            is_wanted: Returns whether the caller still waits.

        Raises:
            tf.errors.OpError: A peer cannot be reached, or has gone, or is in another
                program; or the program has failed in a peer: that error's type and
                message. After that all collectives fail.
        """
        import tensorflow as tf

        if self.over:
            raise tf.errors.FailedPreconditionError(None, None, self.over)
        tag = request.run % TAGS[data.dtype.itemsize]
        tags = np.array([tag, tag * tag], data.dtype)
        try:
            found = self.reduce_all(np.concatenate([data, tags]), request, is_wanted)
            if not np.array_equal(
                found[-2:], tags if request.mean else tags * self.count
            ):
                self.refuse_another_program(request)
        except tf.errors.OpError as error:
            self.over = (
                f"Process {self.index} of {self.count} has given up a collective with the "
                "others before, and they are no longer in step: restart all processes. "
                f"What came then: {error.message}"
            )
            raise
        return found[:-2]

    def reduce_all(
        self, data: NDArray[Any], request: Request, is_wanted: Callable[[], bool]
    ) -> NDArray[Any]:
        """Reduces one array with its tags; see `reduce`."""
        import tensorflow as tf

        session, value, result = self.session(request)
        start, pause_s = time.monotonic(), LOG_S
        past_since: float | None = None

        def check() -> None:
            nonlocal pause_s, past_since
            if not is_wanted():
                raise tf.errors.CancelledError(None, None, "The program was stopped.")
            self.peers.check_alive()
            # A peer that has ended the program has taken part in this collective, whose
            # result then arrives soon; or it never will.
            if not self.peers.check_runs(request):
                past_since = None
            elif past_since is None:
                past_since = time.monotonic()
            elif time.monotonic() - past_since > LEAVING_S:
                self.refuse_another_program(request)
            if time.monotonic() - start > pause_s:
                pause_s *= 2
                if missing := self.peers.waits_for(request):
                    LOGGER.warning("%s", missing)

        # A reduction that waits for its peers cannot be stopped: its thread is abandoned.
        ended = run_interruptibly(
            lambda: session.run(result, {value: data}),
            name="ipufeed_collective",
            on_poll=check,
            pause_s=lambda: POLL_S,
            grace_s=0.0,
        )
        if ended.interruption is None and isinstance(ended.error, Exception):
            self.peers.check_left(ended.error)
            if re.search("[Ss](ize|hape) [Mm]ismatch", str(ended.error)):
                self.refuse_another_program(request)
        found: NDArray[Any] = ended.result()
        self.peers.all_were_there()
        return found

    def refuse_another_program(self, request: Request) -> None:
        """Raises tf.errors.OpError: collectives of different programs were combined."""
        import tensorflow as tf

        self.peers.check_runs(request, waits=True)
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"Process {self.index} of {self.count} has come to {request.what} in its "
            f"program number {request.run} with collectives, and another process is in "
            f"another program, or has ended this one, or has come to another collective. "
            f"{SAME_PROGRAMS}",
        )


@functools.cache
def group(count: int, index: int) -> Group:
    """Returns the group; made once in the process."""
    return Group(count, index)


def join(count: int, index: int) -> None:
    """Makes this process number `index` of `count`, in the core.

    It listens from now on at its address of TF_CONFIG. If it cannot, the reason is logged,
    and the first collective fails with it.

    Security: the server that listens has no authentication; see the module.

    Threads: any, between programs.
    """
    import tensorflow as tf

    try:
        group(count, index)
    except tf.errors.FailedPreconditionError as error:
        LOGGER.warning("%s", error.message)
    callback = callback_of(count, index)
    address = ctypes.cast(callback, ctypes.c_void_p)
    _native.entry().ipufeed_set_processes(count, index, address)


@functools.cache
def callback_of(count: int, index: int) -> CFuncPtr:
    """Makes the core's callback (OnCollective of cc/replicas/processes.h), kept alive."""

    def on_collective(
        stream: int,
        reduction: int,
        mean: int,
        dtype: int,
        address: int | None,  # None: no elements, and no memory
        elements: int,
        wanted: ctypes._Pointer[ctypes.c_int],
        run: int,
        number: int,
        what: bytes,
        message: int,
        message_size: int,
    ) -> int:
        import tensorflow as tf

        try:
            kind = np.dtype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)
            size = elements * kind.itemsize
            memory = (ctypes.c_char * size).from_address(address or 0)
            data = np.frombuffer(memory, kind)
            data[:] = group(count, index).reduce(
                data,
                Request(
                    stream, reduction, bool(mean), dtype, run, number, what.decode()
                ),
                lambda: wanted[0] != 0,
            )
        except Exception as error:
            text = str(getattr(error, "message", error)).encode()
            text = text[: message_size - 1] + b"\0"
            ctypes.memmove(message, text, len(text))
            return int(getattr(error, "error_code", INTERNAL))
        return 0

    return ON_COLLECTIVE(on_collective)
