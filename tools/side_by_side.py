"""Runs stages of CI, two at a time: `python tools/side_by_side.py NAME COMMAND [...]`.

For stages that use one CPU and measure nothing. They start in the order given. The output
of a stage is shown as a whole when it has ended. The first that fails ends the others, and
its exit code is this program's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

AT_ONCE = 2
POLL_S = 0.5
USAGE = 2


class Stages:
    """The stages of one run.

    Threads: `run` is called from several; the lock guards what they share.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._start = time.monotonic()
        self.code = 0

    def run(self, name: str, command: str) -> None:
        """Runs one stage to its end and shows its output; none after a failure."""
        with tempfile.TemporaryFile() as output:
            with self._lock:
                if self.code != 0:
                    return
                process = subprocess.Popen(
                    ["bash", "-c", command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._running.add(process)
            began = time.monotonic()
            code = process.wait()
            with self._lock:
                self._running.discard(process)
                if self.code != 0:
                    return
                took, now = time.monotonic() - began, time.monotonic() - self._start
                end = "" if code == 0 else f" FAILED with exit code {code},"
                print(f"\n=== {name}:{end} {took:.0f} s (at {now:.0f} s)", flush=True)
                output.seek(0)
                sys.stdout.buffer.write(output.read())
                sys.stdout.flush()
                if code != 0:
                    self._end(code if code > 0 else 128 - code)

    def end(self, code: int) -> None:
        """Ends all stages that run, and starts no other."""
        with self._lock:
            self._end(code)

    def _end(self, code: int) -> None:
        self.code = code
        for process in self._running:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue


def main(arguments: list[str]) -> int:
    """Returns 0, or the exit code of the stage that failed first."""
    if not arguments or len(arguments) % 2:
        print(__doc__, file=sys.stderr)
        return USAGE
    stages = Stages()

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt(number)

    signal.signal(signal.SIGTERM, stop)
    stage_list = list(zip(arguments[::2], arguments[1::2], strict=True))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            ended = [pool.submit(stages.run, *each) for each in stage_list]
            # Not without a timeout: Python does not see a signal that comes just before
            # its main thread begins to wait.
            while wait(ended, timeout=POLL_S).not_done:
                pass
            for each in ended:
                each.result()
        except KeyboardInterrupt as interrupt:
            stages.end(128 + (interrupt.args or (signal.SIGINT,))[0])
    return stages.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
