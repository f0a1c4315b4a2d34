"""Measures ipufeed and its peers side by side.

Peers that are not installed (torch, grain, spdl; boost's headers) are listed as missing.
Takes some minutes on two idle CPUs; --quick repeats less.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.peers import Group, images, iteration, queues
from benchmarks.peers.page import page, table

MODULES = {"iteration": iteration, "images": images, "queues": queues}
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


def main() -> int:
    """Prints the tables; returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="a few repeats")
    parser.add_argument("--only", choices=MODULES, help="one group")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write docs/performance.md and its pictures",
    )
    options = parser.parse_args()
    if options.write and (options.only or options.quick):
        parser.error("--write takes all groups, with all repeats")
    groups: list[Group] = []
    for name, module in MODULES.items():
        if options.only in (None, name):
            groups.append(module.measure(options.quick))
            print(f"measured: {name}", file=sys.stderr, flush=True)
    for group in groups:
        print(f"\n{group.title}\n\n{table(group)}")
        for line in group.missing:
            print(f"missing: {line}")
    if options.write:
        page(PAGE, groups)
    return 0


if __name__ == "__main__":
    sys.exit(main())
