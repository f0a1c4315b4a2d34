"""A dispatcher and workers of tf.data service, in processes of their own here."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
import tempfile
import time
from pathlib import Path
from types import TracebackType

from ipufeed.benchmark.process.child_process import Child
from ipufeed.benchmark.scaleout.server import COUNTER_BYTES

MODULE = "ipufeed.benchmark.scaleout.server"
# Each imports TensorFlow: seconds, on a busy machine many.
START_S = 120.0
WORKER_TIMEOUT_MS = 5000


class Cluster:
    """`with Cluster(2) as cluster:` starts it, and leaves no process behind.

    The servers find free ports themselves. TensorFlow's servers listen on all
    interfaces, without authentication; nothing of ours can change that (docs/scale-out.md).

    Args:
        workers: How many, at least 1.

    Attributes:
        target: What tf.data.experimental.service.distribute takes.
        workers: The workers' processes.
        dispatcher: The dispatcher's.

    Raises:
        ScaleOutError: A process did not start; its last words are in the message.

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the dispatcher, then all workers at a time, and waits for them."""
        deadline = time.monotonic() + START_S
        counters = self._folder / "counters"
        counters.write_bytes(bytes(self._count * COUNTER_BYTES))
        with counters.open("r+b") as file:
            self._counters = mmap.mmap(file.fileno(), 0)
        # Static policies need to know how many workers will come, and all may.
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
        """Elements that each worker has produced so far; also of those that are dead."""
        return list(struct.unpack(f"{self._count}q", self._counters[:]))

    def stop(self) -> None:
        """Ends all processes."""
        for child in [*self.workers, self.dispatcher]:
            if child is not None:
                child.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
