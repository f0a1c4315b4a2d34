"""Child processes that run a module of ipufeed, receive with a deadline, and are ended."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ipufeed.errors import ScaleOutError

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
END_S = 5.0
POLL_S = 0.1
PR_SET_PDEATHSIG = 1


class Child:
    """A process `python -m module arguments...` that exchanges lines of JSON.

    Its stderr is a file, whose end is quoted in errors. The thread that starts it must live
    as long as the child should: the kernel ends the child with that thread
    (end_with_parent).
    """

    def __init__(self, what: str, module: str, arguments: Sequence[str], log: Path):
        self.what = what
        self.log = log
        self.cpu_seconds = 0.0
        self.peak_rss_bytes = 0
        root = str(Path(__file__).resolve().parents[3])
        path = os.environ.get("PYTHONPATH")
        environment = {
            **os.environ,
            "PYTHONPATH": root if not path else f"{root}{os.pathsep}{path}",
            "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
        }
        with log.open("wb") as stderr:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=environment,
                )
            except OSError as error:
                raise ScaleOutError(f"cannot start the {what}: {error}.") from error
        self._left = b""

    def alive(self) -> bool:
        """Whether the process runs; if so, samples its CPU time and memory."""
        running = self.process.poll() is None
        if running:
            self.sample()
        return running

    def sample(self) -> None:
        """Updates `cpu_seconds` and `peak_rss_bytes` from /proc."""
        folder = Path(f"/proc/{self.process.pid}")
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            status = (folder / "status").read_text()
        except OSError:  # the process has just ended
            return
        # utime and stime, fields 14 and 15 of proc(5).
        self.cpu_seconds = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                self.peak_rss_bytes = int(line.split()[1]) * 1024

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message as a line of JSON.

        Raises:
            ScaleOutError: The process has ended.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self.ended() from error

    def receive(self, deadline: float) -> dict[str, Any]:
        """Returns the child's next message, skipping other text that it prints.

        Args:
            deadline: In time.monotonic() seconds.

        Raises:
            ScaleOutError: The process has ended, or the deadline has passed.
        """
        while time.monotonic() < deadline:
            found = self.try_receive()
            if found is not None:
                return found
            self.sample()
        raise ScaleOutError(
            f"the {self.what} sent nothing in time. It last printed: {self.stderr_tail()}"
        )

    def try_receive(self) -> dict[str, Any] | None:
        """Returns the child's next message if one comes within POLL_S, else None.

        Raises:
            ScaleOutError: The process has ended.
        """
        assert self.process.stdout is not None
        while b"\n" in self._left:
            line, _, self._left = self._left.partition(b"\n")
            if line.startswith(b"{"):
                found: dict[str, Any] = json.loads(line)
                return found
        if select.select([self.process.stdout], [], [], POLL_S)[0]:
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise self.ended()
            self._left += piece
        return None

    def ended(self) -> ScaleOutError:
        """Returns the error that reports how the process ended."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return ScaleOutError(f"the {self.what} has closed its output.")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        return ScaleOutError(f"the {self.what} {how}: {self.stderr_tail()}")

    def stderr_tail(self) -> str:
        """Returns the last lines that the process printed on stderr."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return "\n".join(lines[-5:]) or "(nothing)"

    def request_end(self) -> None:
        """Closes the process's input, so that it ends, and what it has started with it."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended
                self.process.stdin.close()

    def await_end(self) -> None:
        """Waits until the process has ended, but not for long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)

    def kill(self) -> None:
        """Kills the process and waits until it has ended."""
        self.sample()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unflushed data has no reader
                    pipe.close()


def end_with_parent(parent: int) -> None:
    """Asks the kernel to end this process with its parent, even if the parent is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the request
        os._exit(1)
