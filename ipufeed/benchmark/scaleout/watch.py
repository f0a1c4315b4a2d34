"""Watches the processes of tf.data service while elements come.

TensorFlow itself waits up to an hour for a dispatcher or a worker that has exited.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ipufeed.benchmark.measuring.run import Progress
from ipufeed.benchmark.scaleout.cluster import Cluster

# After a process exited, the rest of the elements is lost if none came for this long.
STALL_S = 5.0
# Silence at the end of a run, after a process exited, from which it is reported.
SILENCE_S = 0.5
# Limits for a remote service, whose processes cannot be watched: silence with a server
# that listens, and the interval of checks whether one does.
REMOTE_STALL_S = 120.0
CHECK_EVERY_S = 2.0


class ServiceLostError(Exception):
    """No more elements will come; its message becomes the result's `error`."""


@dataclass
class _Sample:
    time_s: float
    counts: list[int]
    cpu_s: list[float]


class Watch:
    """A progress callback that watches a service, called about twenty times a second.

    Attributes:
        deaths: A dict for each process that exited: process, seconds (after the first
            element), elements (received by then), how.
        silent_at_end: Seconds without an element at the end of the run, if a process
            exited; 0 for less than SILENCE_S.
    """

    def __init__(
        self, cluster: Cluster | None, target: str, kill_after: float | None
    ) -> None:
        self._cluster = cluster
        self._target = target
        self._kill_after = kill_after
        self._on_progress: Callable[[Progress], None] | None = None
        self._first_s: float | None = None
        self._element_s = time.monotonic()  # of the latest element
        self._checked_s = self._element_s
        self._elements = 0
        self._begin: _Sample | None = None
        self._end: _Sample | None = None
        self._ended_s: dict[str, float] = {}
        self.deaths: list[dict[str, Any]] = []
        self.silent_at_end = 0.0

    def forward_to(self, on_progress: Callable[[Progress], None] | None) -> None:
        """Sets a second receiver of the progress."""
        self._on_progress = on_progress

    def __call__(self, progress: Progress) -> None:
        """Samples the processes; raises ServiceLostError if no more elements will come."""
        now = time.monotonic()
        if progress.elements > self._elements:
            self._element_s, self._elements = now, progress.elements
            if self._first_s is None:
                self._first_s = now
        if self._cluster is None:
            self._check_remote(now)
        else:
            self._kill(now, self._cluster)
            self._sample(self._cluster)
            self._check_local(now, self._cluster)
        if self._on_progress is not None:
            self._on_progress(progress)

    def _kill(self, now: float, cluster: Cluster) -> None:
        """Implements --kill-worker-after."""
        if self._kill_after is None or self._first_s is None:
            return
        if now - self._first_s >= self._kill_after:
            cluster.workers[0].process.kill()
            cluster.workers[0].process.wait()
            self._kill_after = None

    def _sample(self, cluster: Cluster) -> None:
        """Records the processes that exited, and the workers' counters."""
        now = time.monotonic()
        assert cluster.dispatcher is not None
        for child in (cluster.dispatcher, *cluster.workers):
            if not child.alive() and child.what not in self._ended_s:
                self._ended_s[child.what] = now
                code = child.process.returncode
                self.deaths.append(
                    {
                        "process": child.what,
                        "seconds": max(0.0, now - (self._first_s or now)),
                        "elements": self._elements,
                        "how": f"signal {-code}" if code < 0 else f"exit code {code}",
                    }
                )
        if self._first_s is None:
            return
        if self._end is not None and self._element_s <= self._end.time_s:
            return  # no element since: silence is not part of a rate
        cpu = [worker.cpu_seconds for worker in cluster.workers]
        self._end = _Sample(now, cluster.counts(), cpu)
        if self._begin is None:
            self._begin = self._end

    def finish(self) -> None:
        """Takes the last sample, after the run."""
        if self._cluster is not None:
            self._sample(self._cluster)
        silent = time.monotonic() - self._element_s
        if self._ended_s and silent > SILENCE_S:
            self.silent_at_end = silent

    def _check_local(self, now: float, cluster: Cluster) -> None:
        """Raises if the processes that exited were needed."""
        if not self._ended_s:
            return
        if "dispatcher" in self._ended_s:
            raise ServiceLostError("the dispatcher of tf.data service has ended.")
        if self._ended_s.keys() >= {worker.what for worker in cluster.workers}:
            raise ServiceLostError(
                "all tf.data service workers exited; no more elements will arrive."
            )
        if now - self._element_s > STALL_S:
            gone = ", ".join(sorted(self._ended_s))
            raise ServiceLostError(
                f"{gone} has ended, and no element came for {STALL_S:g} s: what it had "
                "not delivered is lost. TensorFlow would wait for it for an hour."
            )

    def _check_remote(self, now: float) -> None:
        """Raises ServiceLostError if no element came for long.

        After STALL_S if no server listens, after REMOTE_STALL_S in any case.
        """
        silent = now - self._element_s
        if silent > REMOTE_STALL_S:
            raise ServiceLostError(
                f"{self._target} gave no element for {REMOTE_STALL_S:g} s: check that "
                "workers are registered."
            )
        if silent > STALL_S and now - self._checked_s > CHECK_EVERY_S:
            self._checked_s = now
            try:
                connect(self._target, 1.0)
            except OSError as error:
                raise ServiceLostError(
                    f"no server listens at {self._target} any more ({error})."
                ) from error

    def worker_rows(self, counted: bool) -> list[dict[str, Any]]:
        """Returns each worker's figures, from the first element to the last.

        Those of a worker that exited end there.

        Args:
            counted: Whether the workers' elements were counted.
        """
        assert self._cluster is not None
        rows = []
        for number, worker in enumerate(self._cluster.workers):
            rate = busy = None
            if self._begin is not None and self._end is not None:
                begin, end = self._begin, self._end
                until = min(end.time_s, self._ended_s.get(worker.what, end.time_s))
                seconds = until - begin.time_s
                if seconds > 0:
                    rate = (end.counts[number] - begin.counts[number]) / seconds
                    busy = (end.cpu_s[number] - begin.cpu_s[number]) / seconds
            rows.append(
                {
                    "worker": number,
                    "elements": self._cluster.counts()[number] if counted else None,
                    "elements_per_second": rate if counted else None,
                    "cpu_seconds": worker.cpu_seconds,
                    "cpus_busy": busy,
                    "peak_rss_bytes": worker.peak_rss_bytes,
                    "died": worker.what in self._ended_s,
                }
            )
        return rows

    def dispatcher_row(self) -> dict[str, Any]:
        """Returns the dispatcher's figures."""
        assert self._cluster is not None
        assert self._cluster.dispatcher is not None
        return {
            "cpu_seconds": self._cluster.dispatcher.cpu_seconds,
            "peak_rss_bytes": self._cluster.dispatcher.peak_rss_bytes,
            "died": "dispatcher" in self._ended_s,
        }


def connect(target: str, timeout_s: float) -> None:
    """Checks that a server listens at `grpc://host:port`.

    Raises:
        OSError, OverflowError: No server does.
    """
    host, _, port = target.removeprefix("grpc://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
