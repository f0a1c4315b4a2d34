"""python -m benchmarks.targets [--quick]: reach, measured, spread, held or not."""

import argparse
import math
import sys
from dataclasses import replace

from benchmarks.targets import Row
from benchmarks.targets.process import measured
from ipufeed.render.terminal import HelpFormatter

MODULES = (
    "command",
    "ring",
    "iterate",
    "feeds",
    "device",
    "pipelines",
    "replicas",
    "processes",
    "executables",
    "variables",
    "keras",
    "loaders",
    "reports",
    "sources",
    "claims",
)


def show(rows: list[Row]) -> str:
    """Returns a table for an 80-column terminal; the promise stands above its figures."""
    lines = [f"{'reach':>18} {'measured':>10} {'quartiles':>18} {'n':>4}  held"]
    for row in rows:
        reach = f"{row.sense} {row.reach:g} {row.unit}" if row.sense else row.unit
        low, high = row.quartiles
        held = {True: "yes", False: "NO", None: "-"}[row.held]
        lines.append(row.what)
        lines.append(
            f"{reach:>18} {row.median:>10.3g} {f'[{low:.3g}, {high:.3g}]':>18} "
            f"{row.repeats:>4}  {held}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measures all rows, prints them, and returns 1 if one was not held."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.targets", formatter_class=HelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few repeats, and fail only where a target is missed twofold, and a time "
        "by more than the machine is slower now: for CI, whose machines are busy",
    )
    parser.add_argument(
        "--only", choices=MODULES, metavar="MODULE", help=f"one of {', '.join(MODULES)}"
    )
    options = parser.parse_args()
    chosen = [name for name in MODULES if options.only in (None, name)]
    found: dict[str, list[Row]] = {}
    for name in chosen:
        found[name] = measured(name, options.quick)
        print(f"measured: {name}", file=sys.stderr, flush=True)
    if options.quick:
        # The repeats are few, and a virtual machine may be slow at waking its threads for
        # a while: what missed twofold is measured again after all others. `claims` has
        # rounds of its own.
        for name in missed_twofold_in(found):
            if name == "claims":
                continue
            found[name] = merged(found[name], measured(name, options.quick))
            print(f"measured again: {name}", file=sys.stderr, flush=True)
    rows = [row for each in found.values() for row in each]
    print(show(rows))
    for row in rows:
        if row.held is False:
            slower = (
                f"; the machine is {row.slack:.1f} times as slow as where it was set"
            )
            print(
                f"missed {missed_by(row):.2f}-fold: {row.what.strip()}"
                f"{slower if row.slack > 1 else ''}"
            )
    if options.quick:
        return int(bool(missed_twofold_in(found)))
    return int(any(row.held is False for row in rows))


def merged(first: list[Row], second: list[Row]) -> list[Row]:
    """Returns the rows of a module with the values of both rounds."""
    return [
        replace(
            one,
            values=one.values + other.values,
            repeats=one.repeats + other.repeats,
            slack=max(one.slack, other.slack),
        )
        for one, other in zip(first, second, strict=True)
    ]


def missed_twofold_in(found: dict[str, list[Row]]) -> list[str]:
    """Returns the names of the modules with a row that missed its target twofold."""
    return [name for name, rows in found.items() if any(map(missed_twofold, rows))]


def missed_by(row: Row) -> float:
    """Returns the factor between the median and the bound that it misses."""
    over, under = row.median, row.reach
    if row.sense == "at least":
        over, under = under, over
    return over / under if under > 0 else math.inf


def missed_twofold(row: Row) -> bool:
    """Whether a row misses its target by more than a busy machine explains: twofold."""
    if row.sense == "at most":
        return min(row.values) > 2 * row.slack * row.reach
    return row.sense == "at least" and max(row.values) < row.reach / row.slack / 2


if __name__ == "__main__":
    sys.exit(main())
