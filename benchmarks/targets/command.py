"""Starts: of the command, and of a program that imports ipufeed."""

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks.targets import Row, row

# What TensorFlow takes on a quick machine; the slack of a slower one follows from it.
TENSORFLOW_MS = 1000.0
# In one process, since TensorFlow's own import differs by more than ours takes.
_IMPORTS = """
import time
start = time.perf_counter()
import tensorflow
middle = time.perf_counter()
import ipufeed
print(time.perf_counter() - middle, middle - start)
"""


def rows(quick: bool) -> list[Row]:
    """Measures `--help` and the import, each as a process of its own."""
    command = [sys.executable, "-m", "ipufeed.benchmark", "--help"]
    helps = []
    for _ in range(5 if quick else 15):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        helps.append(time.perf_counter() - start)
    return [
        row("python -m ipufeed.benchmark --help", "at most", 0.3, "s", helps),
        *imports(5 if quick else 15),
    ]


def imports(repeats: int) -> list[Row]:
    """Measures `import ipufeed` after `import tensorflow`, in new processes."""
    ours, theirs = [], []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", _IMPORTS], check=True, capture_output=True, text=True
        )
        own, tensorflow = (float(seconds) for seconds in done.stdout.split())
        ours.append(1e3 * own)
        theirs.append(1e3 * tensorflow)
    slack = max(1.0, float(np.median(theirs)) / TENSORFLOW_MS)
    over = row("import ipufeed, over import tensorflow", "at most", 100, "ms", ours)
    return [
        replace(over, slack=slack),
        row("    import tensorflow", "", 0, "ms", theirs),
    ]
