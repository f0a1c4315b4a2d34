"""Keeps an eye on the processes of tf.data service while elements come.

Left alone, TensorFlow waits for an hour for a dispatcher or a worker that is gone.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from ipufeed.benchmark.measuring.run import Progress
from ipufeed.benchmark.scaleout.cluster import Cluster

# After a death: silence for so long means that what is left will not come.
STALL_S = 5.0
# Silence at the end of a run that is too short to be sure: worth telling.
SILENCE_S = 0.5
# With no process to look at: silence for so long, and no server or no element yet.
FOREIGN_STALL_S = 120.0
ASK_EVERY_S = 2.0


class LostError(Exception):
    """Nothing will come any more; the words are for the result's `error`."""


class Watch:
    """Called with the progress, about twenty times a second.

    Attributes:
        deaths: A dict for each process that has ended: process, seconds (after the first
            element), elements (that had come), how.
        silent_at_end: Seconds without an element at the end of the run, after a death; 0
            for less than SILENCE_S.
    """

    def __init__(
        self, cluster: Cluster | None, target: str, kill_after: float | None
    ) -> None:
        self._cluster = cluster
        self._target = target
        self._kill_after = kill_after
        self._on_progress: Callable[[Progress], None] | None = None
        self._first_s: float | None = None
        self._moved_s = time.monotonic()
        self._asked_s = self._moved_s
        self._seen_s = 0.0
        self._elements = 0
        self._begin: tuple[float, list[int], list[float], float] | None = None
        self._end: tuple[float, list[int], list[float], float] | None = None
        self._ended_s: dict[str, float] = {}
        self.deaths: list[dict[str, Any]] = []
        self.silent_at_end = 0.0

    def pass_on_to(self, on_progress: Callable[[Progress], None] | None) -> None:
        """Sets a second receiver of the progress."""
        self._on_progress = on_progress

    def __call__(self, progress: Progress) -> None:
        """Looks at the processes; raises LostError when nothing more will come."""
        now = time.monotonic()
        if progress.elements > self._elements:
            self._moved_s, self._elements = now, progress.elements
            if self._first_s is None:
                self._first_s = now
        if self._cluster is None:
            self._look_from_afar(now)
        else:
            self._kill(now)
            self.look()
            self._judge(now)
        if self._on_progress is not None:
            self._on_progress(progress)

    def _kill(self, now: float) -> None:
        """The switch --kill-worker-after."""
        if self._kill_after is None or self._first_s is None or self._cluster is None:
            return
        if now - self._first_s >= self._kill_after:
            self._cluster.workers[0].process.kill()
            self._cluster.workers[0].process.wait()
            self._kill_after = None

    def look(self) -> None:
        """Notes which processes have ended, and what the others have done."""
        cluster = self._cluster
        if cluster is None or cluster.dispatcher is None:
            return
        now = time.monotonic()
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
        if self._begin is not None and self._moved_s <= self._seen_s:
            return  # silence, which is not a rate
        self._seen_s = now
        cpu = [worker.cpu_seconds for worker in cluster.workers]
        self._end = (now, cluster.counts(), cpu, cluster.dispatcher.cpu_seconds)
        if self._begin is None:
            self._begin = self._end

    def end(self) -> None:
        """The last look: the run is over."""
        self.look()
        silent = time.monotonic() - self._moved_s
        if self._ended_s and silent > SILENCE_S:
            self.silent_at_end = silent

    def _judge(self, now: float) -> None:
        """Raises when what has ended cannot be done without."""
        if not self._ended_s or self._cluster is None:
            return
        dead = self._ended_s.keys()
        workers = [worker.what for worker in self._cluster.workers]
        if "dispatcher" in dead:
            raise LostError("the dispatcher of tf.data service has ended.")
        if dead >= set(workers):
            raise LostError(
                "all tf.data service workers exited; no more elements will arrive."
            )
        if now - self._moved_s > STALL_S:
            gone = ", ".join(sorted(dead))
            raise LostError(
                f"{gone} has ended, and no element came for {STALL_S:g} s: what it had "
                "not delivered is lost. TensorFlow would wait for it for an hour."
            )

    def _look_from_afar(self, now: float) -> None:
        """Raises when a service that is not ours is silent and gone."""
        silent = now - self._moved_s
        if silent > FOREIGN_STALL_S:
            raise LostError(
                f"{self._target} gave no element for {FOREIGN_STALL_S:g} s: has it "
                "workers?"
            )
        if silent > STALL_S and now - self._asked_s > ASK_EVERY_S:
            self._asked_s = now
            host, _, port = self._target.removeprefix("grpc://").rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), 1.0).close()
            except OSError as error:
                raise LostError(
                    f"no server listens at {self._target} any more ({error})."
                ) from error

    def worker_rows(self, counted: bool) -> list[dict[str, Any]]:
        """What each worker did from the first element on, while elements came.

        One that has ended: until then.
        """
        assert self._cluster is not None
        rows = []
        for number, worker in enumerate(self._cluster.workers):
            seconds = elements = cpu = None
            if self._begin is not None and self._end is not None:
                until = min(self._end[0], self._ended_s.get(worker.what, self._end[0]))
                seconds = max(0.0, until - self._begin[0])
                elements = self._end[1][number] - self._begin[1][number]
                cpu = self._end[2][number] - self._begin[2][number]
            known = bool(seconds) and seconds is not None
            rows.append(
                {
                    "worker": number,
                    "elements": self._cluster.counts()[number] if counted else None,
                    "elements_per_second": elements / seconds
                    if counted and known and elements is not None and seconds
                    else None,
                    "cpu_seconds": worker.cpu_seconds,
                    "cpus_busy": cpu / seconds
                    if known and cpu is not None and seconds
                    else None,
                    "peak_rss_bytes": worker.peak_rss_bytes,
                    "died": worker.what in self._ended_s,
                }
            )
        return rows

    def dispatcher_row(self) -> dict[str, Any]:
        """What the dispatcher took."""
        assert self._cluster is not None
        assert self._cluster.dispatcher is not None
        return {
            "cpu_seconds": self._cluster.dispatcher.cpu_seconds,
            "peak_rss_bytes": self._cluster.dispatcher.peak_rss_bytes,
            "died": "dispatcher" in self._ended_s,
        }
