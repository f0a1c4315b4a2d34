"""A dispatcher and workers of tf.data service in processes of their own on this host."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
import tempfile
import time
from pathlib import Path

from ipufeed.benchmark.process.child_process import Child
from ipufeed.benchmark.scaleout.server import COUNTER_BYTES

MODULE = "ipufeed.benchmark.scaleout.server"
# Each process imports TensorFlow: seconds, on a busy machine many.
START_S = 120.0
WORKER_TIMEOUT_MS = 5000


class Cluster:
    """A context manager that starts a cluster, and ends all its processes.

    The servers find free ports. TensorFlow's servers listen on all interfaces, without
    authentication, which cannot be configured (docs/scale-out.md).

    Args:
        workers: Number of workers, at least 1.

    Attributes:
        target: Argument for tf.data.experimental.service.distribute.
        workers: Processes of the workers.
        dispatcher: Process of the dispatcher.

    Raises:
        ScaleOutError: A process did not start; the message quotes the end of its log.

    Threads: one, which must live as long as the cluster.
    """

    def __init__(self, workers: int) -> None:
        self._count = workers
        self._folder = Path(tempfile.mkdtemp(prefix="ipufeed-service-"))
        self.target = ""
        self.workers: list[Child] = []
        self.dispatcher: Child | None = None

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the dispatcher, then all workers, and waits until they serve."""
        deadline = time.monotonic() + START_S
        counters = self._folder / "counters"
        counters.write_bytes(bytes(self._count * COUNTER_BYTES))
        with counters.open("r+b") as file:
            self._counters = mmap.mmap(file.fileno(), 0)
        # Static sharding needs the number of workers, of any address.
        options = {
            "worker_addresses": ["localhost:%port%"] * self._count,
            "worker_timeout_ms": WORKER_TIMEOUT_MS,
        }
        self.dispatcher = self._start("dispatcher", "dispatcher", options)
        address = self.dispatcher.receive(deadline)["address"]
        for number in range(self._count):
            options = {
                "dispatcher": address,
                "counters": str(counters),
                "number": number,
            }
            self.workers.append(self._start("worker", f"worker {number}", options))
        for worker in self.workers:
            worker.receive(deadline)
        self.target = f"grpc://{address}"

    def _start(self, kind: str, what: str, options: dict[str, object]) -> Child:
        options = {"parent": os.getpid(), **options}
        log = self._folder / f"{what.replace(' ', '-')}.log"
        return Child(what, MODULE, [kind, json.dumps(options)], log)

    def counts(self) -> list[int]:
        """Returns the elements that each worker has produced, exited workers included."""
        return list(struct.unpack(f"{self._count}q", self._counters[:]))

    def cpu_seconds(self) -> float:
        """Returns the CPU time of all processes, exited ones included."""
        children = [self.dispatcher, *self.workers]
        for child in children:
            if child is not None:
                child.alive()  # samples it
        return sum(child.cpu_seconds for child in children if child is not None)

    def stop(self) -> None:
        """Ends all processes."""
        for child in [*self.workers, self.dispatcher]:
            if child is not None:
                child.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
