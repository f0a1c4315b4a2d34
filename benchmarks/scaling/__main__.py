"""Measures how costs grow with the work, each axis in a process of its own.

Takes about 7 minutes on two idle CPUs, two with --quick.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.scaling.apart import measured
from benchmarks.scaling.bends import sentences
from benchmarks.scaling.page import page, table

NAMES = (
    "components",
    "bytes",
    "depth",
    "replicas",
    "stages",
    "workers",
    "elements",
    "memory",
)
PAGE = Path(__file__).parents[2] / "docs" / "performance" / "scaling.md"


def main() -> int:
    """Prints the tables and the sentences; returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="fewer points and repeats")
    parser.add_argument(
        "--only",
        choices=NAMES,
        nargs="+",
        metavar="AXIS",
        help=f"these axes: {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write docs/performance/scaling.md and its plots",
    )
    options = parser.parse_args()
    if options.write and (options.only or options.quick):
        parser.error("--write takes all axes, with all points and repeats")
    axes = {}
    for name in NAMES if options.only is None else options.only:
        axes[name] = measured(name, options.quick)
        print(f"measured: {name}", file=sys.stderr, flush=True)
    for axis in axes.values():
        print(f"\n{axis.title}\n\n{table(axis)}\n")
        for line in sentences(axis):
            print(f"- {line}")
    if options.write:
        page(PAGE, axes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
