"""python -m benchmarks.targets [--quick]: reach, measured, spread, held or not."""

import argparse
import sys
import time
from typing import Any

from benchmarks.targets import Row
from ipufeed.render.terminal import HelpFormatter

# A virtual machine may be slow at waking its threads for a while, so that a target that
# is missed twofold is measured again; what is slow itself is so each time.
TRIES, PAUSE_S = 3, 15.0


def show(rows: list[Row]) -> str:
    """A table for an 80-column terminal; the promise stands above its figures."""
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
        help="a few repeats, and fail only where a target is missed twofold: for CI, "
        "whose machines are busy",
    )
    parser.add_argument(
        "--only",
        help="rows of one module: command, ring, iterate, feeds, pipelines, device, "
        "executables, keras, reports or sources",
    )
    options = parser.parse_args()

    from benchmarks.targets import (
        command,
        device,
        executables,
        feeds,
        iterate,
        keras,
        pipelines,
        reports,
        ring,
        sources,
    )

    modules = {
        "command": command,
        "ring": ring,
        "iterate": iterate,
        "feeds": feeds,
        "device": device,
        "pipelines": pipelines,
        "executables": executables,
        "keras": keras,
        "reports": reports,
        "sources": sources,
    }
    if options.only is not None and options.only not in modules:
        parser.error(f"--only must be one of {', '.join(modules)}, got {options.only}")
    rows: list[Row] = []
    for name, module in modules.items():
        if options.only in (None, name):
            rows += quick_rows(module) if options.quick else module.rows(quick=False)
            print(f"measured: {name}", file=sys.stderr, flush=True)
    print(show(rows))
    if options.quick:
        return int(any(missed_twofold(row) for row in rows))
    return int(any(row.held is False for row in rows))


def quick_rows(module: Any) -> list[Row]:
    """A module's rows: of the first try without one that is missed twofold, or the last."""
    for left in reversed(range(TRIES)):
        rows: list[Row] = module.rows(quick=True)
        if left == 0 or not any(missed_twofold(row) for row in rows):
            break
        print("missed twofold, so once more", file=sys.stderr, flush=True)
        time.sleep(PAUSE_S)
    return rows


def missed_twofold(row: Row) -> bool:
    """Further off than a busy machine explains."""
    if row.sense == "at most":
        return min(row.values) > 2 * row.slack * row.reach
    return row.sense == "at least" and max(row.values) < row.reach / row.slack / 2


if __name__ == "__main__":
    sys.exit(main())
