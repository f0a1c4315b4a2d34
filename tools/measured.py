"""Runs the tests that judge times of this machine: `python tools/measured.py`.

One process, and nothing else at the same time. A virtual machine may be slow for a while:
what has failed runs once more after a pause, twice at most; what is wrong fails each time.
Arguments go to pytest.
"""

import subprocess
import sys
import time

TRIES, PAUSE_S = 3, 15.0
TESTS_FAILED = 1  # of pytest's exit codes
COMMAND = [sys.executable, "-m", "pytest", "-n", "0", "-m", "measured"]


def main(arguments: list[str]) -> int:
    """Returns pytest's exit code of the last try."""
    command = [*COMMAND, *arguments]
    code = subprocess.run(command, check=False).returncode
    for _ in range(TRIES - 1):
        if code != TESTS_FAILED:
            break
        print("some failed, so these once more", file=sys.stderr, flush=True)
        time.sleep(PAUSE_S)
        code = subprocess.run([*command, "--last-failed"], check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
