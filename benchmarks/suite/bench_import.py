"""What does it take until a program can begin? Each in a process of its own."""

import subprocess
import sys

from benchmarks import feeds


class Import:
    """The statement alone; the start of Python is left out."""

    repeat = 5
    rounds = 1
    number = 1  # each call is a process
    warmup_time = 0.0
    timeout = 300

    def timeraw_ipufeed(self):
        return "import ipufeed"

    def timeraw_ipufeed_after_tensorflow(self):
        return "import ipufeed", "import tensorflow"


class Command:
    """As seen from the shell."""

    timeout = 300

    def track_help(self):
        command = [sys.executable, "-m", "ipufeed.benchmark", "--help"]
        return min(
            feeds.seconds(
                lambda: subprocess.run(command, check=True, capture_output=True)
            )
            for _ in range(5)
        )

    track_help.unit = "s"
