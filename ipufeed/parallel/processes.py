"""Replicas in several processes: their exchanges go through TensorFlow's collectives.

    process 0:  replicas --> one tensor --+                  +--> replicas
    process 1:  replicas --> one tensor --+-- ring reduce ---+--> replicas

    TF_CONFIG='{"cluster": {"worker": ["localhost:2301", "localhost:2302"]},
                "task": {"type": "worker", "index": 0}}'

Each process configures `experimental.multi_replica_distribution` with the number of
processes and its own index, runs the same program, and feeds it its own part of the data
(`dataset.shard(process_count, process_index)`). The addresses are those that TensorFlow's
own strategies take, in TF_CONFIG; each process listens at its own as soon as it is
configured, and notes who else does. Reductions are computed first within each process,
then between them, and every process gets the same bits.

Source: TensorFlow's ring reduction between the servers of a cluster, as of its
MultiWorkerMirroredStrategy; the configuration is Graphcore's.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
import time
from typing import Any

import numpy as np

from ipufeed import _native
from ipufeed.device.log import LOGGER
from ipufeed.parallel.peers import Peer, reach

INTERNAL = 13  # of absl's status codes
MOST_CHIPS = 1024  # kMostChips of ipufeed/cc/chips.h: lanes of an IPU device
# With each exchange go two numbers that are the same in all processes if these are in the
# same program: its number modulo this, and the square (equal means of both: equal numbers).
# They are so small that the dtype has the squares' sums exactly: of 28 processes in a
# bfloat16, of 64 in a float32.
TAGS = {2: 4, 4: 512, 8: 512}  # by the dtype's size in bytes
# How often a wait looks whether the others are alive, and whether anybody wants its end.
LOOK_S = 0.5
# After which time it says who has not come yet; then after twice as long, and so on.
SAY_S = 10.0

# What an exchange says that has lost another process, and how long that may take to end.
LOST_PEER = re.compile(
    r"from remote target /job:worker/replica:0/task:(\d+) .*"
    r"(?:Socket closed|Connection reset|failed to connect|recvmsg)",
    re.DOTALL,
)
LEAVING_S = 2.0

# By Reduction of ipufeed/cc/replicas.h.
MERGES = ("Add", "Mul", "Min", "Max")

ON_EXCHANGE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_int),
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
)


class Group:
    """The processes of TF_CONFIG, of which this is one.

    Args:
        count: How many there must be.
        index: Of this one.

    Raises:
        tf.errors.FailedPreconditionError: TF_CONFIG says nothing, or something else.

    Threads: any; exchanges of one lane follow each other.
    """

    def __init__(self, count: int, index: int) -> None:
        import tensorflow as tf

        self.count, self.index = count, index
        self.addresses = addresses(count, index)
        self.lock = threading.Lock()
        self.sessions: dict[tuple[int, int, int, int], Any] = {}
        # Who has listened at some time: has gone if it does so no more.
        self.seen = {index}
        # Why there can be no more exchanges; "" while there can be.
        self.over = ""
        self.peers = [
            Peer(other, address)
            for other, address in enumerate(self.addresses)
            if other != index
        ]
        options = self.options({"CPU": 1, "IPU": 0})
        try:
            self.server = tf.distribute.Server(
                {"worker": self.addresses},
                job_name="worker",
                task_index=index,
                config=options,
            )
        except tf.errors.OpError as error:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"Process {index} cannot listen at {self.addresses[index]}, which "
                f"TF_CONFIG gives it: {error.message}",
            ) from error
        LOGGER.info(
            "Process %d of %d listens at %s.", index, count, self.addresses[index]
        )
        threading.Thread(target=self.watch, daemon=True).start()

    def options(self, device_count: dict[str, int]) -> Any:
        """A ConfigProto."""
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(device_count=device_count)
        config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        return config

    def session(self, lane: int, reduction: int, mean: bool, dtype: int) -> Any:
        """What runs such exchanges, and its tensors; made when it is first wanted."""
        import tensorflow as tf

        with self.lock:
            found = self.sessions.get((lane, reduction, mean, dtype))
            if found is not None:
                return found
            with (
                tf.Graph().as_default() as graph,
                tf.device(f"/job:worker/task:{self.index}/device:CPU:0"),
            ):
                value = tf.compat.v1.placeholder(tf.dtypes.as_dtype(dtype), [None])
                result = tf.raw_ops.CollectiveReduce(
                    input=value,
                    group_size=self.count,
                    group_key=1,
                    # The same number for the same exchange in all processes.
                    instance_key=((lane * 4 + reduction) * 2 + mean) * 128 + dtype,
                    merge_op=MERGES[reduction],
                    final_op="Div" if mean else "Id",
                    subdiv_offsets=[0],
                    communication_hint="ring",
                )
            config = self.options({})
            # The others' devices are no business of this session, which must not wait
            # for them to be there.
            config.device_filters.append(f"/job:worker/task:{self.index}")
            session = tf.compat.v1.Session(self.server.target, graph, config)
            self.sessions[lane, reduction, mean, dtype] = session, value, result
            return session, value, result

    def reduce(
        self,
        data: Any,
        lane: int,
        reduction: int,
        mean: bool,
        dtype: int,
        wanted: Any,
        run: int,
    ) -> Any:
        """The reduction of one array over the processes.

        Args:
            data: 1-D array.
            lane: See processes.h.
            reduction: Number of one of MERGES.
            mean: Whether the result is divided by the processes.
            dtype: TensorFlow's number of the dtype.
            wanted: Says whether anybody still waits.
            run: Number of the program among those with exchanges: see processes.h.

        Raises:
            tf.errors.OpError: The others cannot be reached, or have gone, or the same
                program has failed in one of them: its error's type, and its words. Or
                one is in another program. After that there is no more exchange.
        """
        import tensorflow as tf

        if self.over:
            raise tf.errors.FailedPreconditionError(None, None, self.over)
        tag = run % TAGS[data.dtype.itemsize]
        tags = np.array([tag, tag * tag], data.dtype)
        try:
            found = self.reduce_all(
                np.concatenate([data, tags]), lane, reduction, mean, dtype, wanted, run
            )
            if not np.array_equal(found[-2:], tags if mean else tags * self.count):
                self.refuse_another_program(lane, run)
        except tf.errors.OpError as error:
            self.over = (
                f"Process {self.index} of {self.count} has given up an exchange with the "
                "others before, and they are no longer in step: start all of them anew. "
                f"What came then: {error.message}"
            )
            raise
        return found[:-2]

    def reduce_all(
        self,
        data: Any,
        lane: int,
        reduction: int,
        mean: bool,
        dtype: int,
        wanted: Any,
        run: int,
    ) -> Any:
        """The reduction of one array, with its tags; see `reduce`."""
        import tensorflow as tf

        session, value, result = self.session(lane, reduction, mean, dtype)
        done = threading.Event()
        answer: list[Any] = []

        def ask() -> None:
            try:
                answer.append(session.run(result, {value: data}))
            except Exception as error:
                answer.append(error)
            done.set()

        # A daemon: a process that does not come must not keep this one from its end.
        threading.Thread(target=ask, daemon=True).start()
        start, said = time.monotonic(), SAY_S
        while not done.wait(LOOK_S):
            if not wanted():
                raise tf.errors.CancelledError(None, None, "The program was stopped.")
            self.look_for_the_others()
            self.look_for_failures(lane, run)
            if len(self.seen) < self.count and time.monotonic() - start > said:
                said *= 2
                LOGGER.warning("%s", self.who_is_missing())
        if isinstance(answer[0], Exception):
            self.name_who_left(answer[0])
            if "Size Mismatch" in str(answer[0]):
                self.refuse_another_program(lane, run)
            raise answer[0]
        return answer[0]

    def name_who_left(self, error: Exception) -> None:
        """Raises tf.errors.AbortedError if an exchange has failed since a process has gone.

        A process that ends closes its connections first, and listens for a moment more.
        """
        import tensorflow as tf

        found = LOST_PEER.search(str(error))
        deadline = time.monotonic() + (LEAVING_S if found else 0.0)
        while True:
            self.look_for_the_others()
            if time.monotonic() >= deadline:
                break
            time.sleep(LEAVING_S / 20)
        if found is None or int(found[1]) >= self.count:
            return
        lost = int(found[1])
        raise tf.errors.AbortedError(
            None,
            None,
            f"Process {lost} of {self.count}, at {self.addresses[lost]}, has broken off an "
            f"exchange with process {self.index}, and listens still: look what it says.",
        ) from error

    def refuse_another_program(self, lane: int, run: int) -> None:
        """Raises tf.errors.OpError: what has met were exchanges of different programs."""
        import tensorflow as tf

        self.look_for_failures(lane, run, waits=True)
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"Process {self.index} of {self.count} has come to an exchange of its program "
            f"number {run} with exchanges, and another process to one of another program, "
            "or of other tensors. All must run the same programs, with as many exchanges "
            "in each: start all of them anew.",
        )

    def look_for_failures(self, lane: int, run: int, *, waits: bool = False) -> None:
        """Raises tf.errors.OpError if another process has failed in this program.

        Args:
            lane: Of the exchange.
            run: The program's number.
            waits: Whether to wait for what the others say now. Default: False.
        """
        import tensorflow as tf

        for peer in self.peers:
            if not waits and peer.index not in self.seen:
                continue
            failures = peer.failures(lane // MOST_CHIPS, waits=waits)
            failure = next((each for each in failures if each.run == run), None)
            if failure is not None:
                raise tf.errors.OpError(
                    None,
                    None,
                    f"Process {peer.index} of {self.count}, at {peer.address}, has failed "
                    f"in the program in which process {self.index} waits for it. Its "
                    f"error: {failure.message}",
                    failure.code,
                )
            if failures and failures[0].run > run:
                raise tf.errors.FailedPreconditionError(
                    None,
                    None,
                    f"Process {peer.index} of {self.count}, at {peer.address}, is past the "
                    f"program in which process {self.index} waits for it: start all of "
                    f"them anew. Its last error: {failures[0].message}",
                )

    def watch(self) -> None:
        """Notes who listens, until all have been seen; on a thread of its own."""
        while len(self.seen) < self.count:
            for index, address in enumerate(self.addresses):
                if index not in self.seen and reach(address) is None:
                    self.seen.add(index)
            time.sleep(LOOK_S)

    def who_is_missing(self) -> str:
        """A sentence for the log."""
        missing = ", ".join(
            f"process {index} at {address}"
            for index, address in enumerate(self.addresses)
            if index not in self.seen
        )
        return (
            f"Process {self.index} of {self.count} has something to exchange, and waits "
            f"for {missing}: nothing has listened there so far."
        )

    def look_for_the_others(self) -> None:
        """Raises tf.errors.AbortedError if one has listened, and does so no more."""
        import tensorflow as tf

        for index, address in enumerate(self.addresses):
            error = reach(address)
            if error is None:
                self.seen.add(index)
            elif index in self.seen:
                raise tf.errors.AbortedError(
                    None,
                    None,
                    f"Process {index} of {self.count}, at {address}, has gone: {error}. "
                    f"Process {self.index} cannot go on alone: start all of them anew.",
                ) from error


def addresses(count: int, index: int) -> list[str]:
    """Where the processes listen.

    Raises:
        tf.errors.FailedPreconditionError: TF_CONFIG says nothing, or something else.
    """
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        found = resolver.cluster_spec().as_dict().get("worker", [])
        own = resolver.task_id
    except ValueError as error:
        raise tf.errors.FailedPreconditionError(
            None, None, f"TF_CONFIG cannot be read: {error}"
        ) from error
    if len(found) == count and own == index:
        return list(found)
    says = f"has {len(found)} workers and the index {own}"
    raise tf.errors.FailedPreconditionError(
        None,
        None,
        f"experimental.multi_replica_distribution says that this is process {index} of "
        f"{count}; TF_CONFIG must say where they are, and "
        f"{says if os.environ.get('TF_CONFIG') else 'is not set'}. Set it to "
        '{"cluster": {"worker": ["host:port", ...]}, '
        f'"task": {{"type": "worker", "index": {index}}}}}.',
    )


@functools.cache
def group(count: int, index: int) -> Group:
    """The group; once for the process."""
    return Group(count, index)


def join(count: int, index: int) -> None:
    """Tells the core that there are so many processes, of which this is one.

    It listens from now on if TF_CONFIG says where. If it cannot, the log says why, and so
    does the first exchange, which fails.

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
def callback_of(count: int, index: int) -> Any:
    """What the core asks (OnExchange of ipufeed/cc/processes.h); kept for good."""

    def exchange(
        lane: int,
        reduction: int,
        mean: int,
        dtype: int,
        address: int,
        elements: int,
        wanted: Any,
        run: int,
        message: int,
        message_size: int,
    ) -> int:
        import tensorflow as tf

        try:
            kind = np.dtype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)
            memory = (ctypes.c_char * (elements * kind.itemsize)).from_address(address)
            data = np.frombuffer(memory, kind)
            data[:] = group(count, index).reduce(
                data,
                lane,
                reduction,
                bool(mean),
                dtype,
                lambda: wanted[0] != 0,
                run,
            )
        except Exception as error:
            text = str(getattr(error, "message", error)).encode()
            text = text[: message_size - 1] + b"\0"
            ctypes.memmove(message, text, len(text))
            return int(getattr(error, "error_code", INTERNAL))
        return 0

    return ON_EXCHANGE(exchange)
