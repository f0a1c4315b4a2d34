"""Runs the asv suite once, quickly, and sees that it measured: python tools/asv_runs.py

asv skips what it cannot import and says so in passing; a suite that measures nothing
would go unnoticed. The machine's file goes to a folder of its own, not to the home.
"""

import os
import re
import subprocess
import sys
import tempfile

LEAST = 60  # benchmarks that must have given a value
QUICKLY = ("--launch-method=forkserver", "--quick", "--dry-run")


def asv(*arguments: str, home: str) -> str:
    """Runs asv in this environment; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "asv", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": home, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    print(done.stdout, done.stderr, sep="\n")
    if done.returncode != 0:
        sys.exit(f"asv {arguments[0]} failed with {done.returncode}")
    return done.stdout


def main() -> int:
    """Runs each benchmark once; returns 1 if one has no value."""
    with tempfile.TemporaryDirectory() as home:
        asv("machine", "--yes", home=home)
        asv("check", "--python=same", home=home)
        text = asv("run", "--python=same", *QUICKLY, home=home)
    values = re.findall(r"^\[ *[\d.]+%\] ··· \S+_\S+ +(\S+)$", text, re.MULTILINE)
    # One of several parameters is "ok", and has its values in a table below.
    failed = [v for v in values if not re.match(r"-?\d", v) and v != "ok"]
    failed += re.findall(r"^ +\S+ +(failed|n/a) *$", text, re.MULTILINE)
    print(f"asv: {len(values)} benchmarks, {len(failed)} without a value")
    return int(len(values) < LEAST or bool(failed))


if __name__ == "__main__":
    sys.exit(main())
