"""python -m call_sequences: the process in which tools/sequences.py runs sequences."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import logging
import resource
import sys
import time
from pathlib import Path

FAULT = 3  # a code that no crash and no hang ends with


def main() -> int:
    """Returns 0, or FAULT: then the faults are on stdout."""
    parser = argparse.ArgumentParser(prog="python -m call_sequences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--hang", type=float, required=True)
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    faulthandler.enable()
    import tensorflow as tf

    import ipufeed  # noqa: F401
    from call_sequences import running

    tf.get_logger().setLevel("ERROR")
    logging.getLogger("ipufeed").setLevel(logging.ERROR)
    gc.collect()
    gc.freeze()  # sequences collect garbage: 0.25 s with what TensorFlow has
    if options.replay is not None:
        lines = options.replay.read_text().splitlines()
        calls = [(name, arguments) for name, arguments in map(json.loads, lines)]
        fault = running.run_calls(calls, None, options.hang)
        print(fault or "nothing found")
        return 0 if fault is None else FAULT
    begin = time.monotonic()
    numbers = range(options.first, options.first + options.count)
    found = running.run_sequences(
        options.seed, numbers, options.log, options.hang, options.keep_going
    )
    for text in found:
        print(text)
    rate = options.count / (time.monotonic() - begin)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{len(found)} faults in sequences {numbers.start} to {numbers.stop - 1}; "
        f"{rate:.1f} sequences/s, at most {most} MiB"
    )
    return FAULT if found else 0


if __name__ == "__main__":
    sys.exit(main())
