"""The command's start."""

import subprocess
import sys
import time

from benchmarks.targets import Row, row


def rows(quick: bool) -> list[Row]:
    """Measures `--help`, as a process of its own."""
    command = [sys.executable, "-m", "ipufeed.benchmark", "--help"]
    values = []
    for _ in range(5 if quick else 15):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        values.append(time.perf_counter() - start)
    return [row("python -m ipufeed.benchmark --help", "at most", 0.3, "s", values)]
