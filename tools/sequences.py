"""python tools/sequences.py [--count N] [--seed S]: random calls of the queues, checked.

this process --seed, numbers--> a child runs the sequences --> faults on stdout
     |                             | writes each call into a file before it runs
     |                             +-- after --portion sequences: a new child
     +-- the child crashed or hangs: the calls of that file, shortened

See tests/call_sequences. The seed is random and printed; IPUFEED_TEST_SEED sets it.
Exit code: 0 nothing was found, 1 a fault, a crash or a hang was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from call_sequences.__main__ import FAULT  # noqa: E402
from call_sequences.running import HANG_S, report, shrink  # noqa: E402

# TensorFlow keeps what it has compiled until its process ends: 3 MB for a sequence.
PORTION = 250

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        filter(None, [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH")])
    ),
    "TF_CPP_MIN_LOG_LEVEL": "3",  # a dequeue before the first program is in the plan
}


def main() -> int:
    """Runs the sequences; see above."""
    parser = argparse.ArgumentParser(prog="python tools/sequences.py")
    parser.add_argument("--count", type=int, default=1000, help="sequences")
    parser.add_argument("--seed", type=int, help="default: IPUFEED_TEST_SEED, or any")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument(
        "--hang", type=float, default=HANG_S, metavar="S", help="the most for one call"
    )
    parser.add_argument(
        "--portion", type=int, default=PORTION, help="the most sequences of a child"
    )
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="show all faults, none of them shorter",
    )
    parser.add_argument(
        "--executables",
        type=Path,
        metavar="FOLDER",
        help="keep compiled programs there, and load them: a third less time",
    )
    options = parser.parse_args()
    if options.executables is not None:
        flags = ENVIRONMENT.get("TF_POPLAR_FLAGS", "")
        cache = f"--executable_cache_path={options.executables.resolve()}"
        ENVIRONMENT["TF_POPLAR_FLAGS"] = f"{flags} {cache}".strip()
    seed = options.seed
    if seed is None:
        seed = int(os.environ.get("IPUFEED_TEST_SEED") or random.randrange(10**9))
    print(f"IPUFEED_TEST_SEED={seed}", flush=True)
    found = False
    end = options.first + options.count
    for first in range(options.first, end, options.portion):
        count = min(options.portion, end - first)
        found = portion(seed, first, count, options.hang, options.keep_going) or found
        if found and not options.keep_going:
            break
    return int(found)


def portion(seed: int, first: int, count: int, hang_s: float, keep_going: bool) -> bool:
    """Runs `count` sequences in a child; returns whether anything was found."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "calls"
        numbers = [f"--seed={seed}", f"--first={first}", f"--count={count}"]
        keep = ["--keep-going"] if keep_going else []
        done = child([*numbers, *keep, f"--log={log}"], hang_s)
        print(done.stdout, end="", flush=True)
        if done.returncode in (0, FAULT):
            return done.returncode == FAULT
        print(done.stderr[-20_000:], file=sys.stderr)
        if not log.exists():
            return True
        number, *calls = map(json.loads, log.read_text().splitlines())
        calls = [tuple(each) for each in calls]
        what = (
            f"the process ended with code {done.returncode}; its stacks are on stderr"
        )
        print(report(seed, number, calls, what), flush=True)
        calls = shrink(calls, lambda fewer: crashes(fewer, log, hang_s))
        print(report(seed, number, calls, "the same in fewer calls"))
    return True


def child(arguments: list[str], hang_s: float) -> subprocess.CompletedProcess[str]:
    """Runs sequences in a new process, which ends by itself when a call hangs."""
    return subprocess.run(
        [sys.executable, "-m", "call_sequences", f"--hang={hang_s}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )


def crashes(calls: list[Any], log: Path, hang_s: float) -> bool:
    """Whether a new process does not survive the calls."""
    replay = log.with_name("replay")
    replay.write_text("".join(json.dumps(each) + "\n" for each in calls))
    done = child([f"--log={log}", f"--replay={replay}"], hang_s)
    return done.returncode not in (0, FAULT)


if __name__ == "__main__":
    sys.exit(main())
