"""python -m ipufeed.benchmark selftest: checks the benchmark on this machine.

    planted.py    datasets of known rate, length, bytes and error
    plain.py      checks without a device: rates, counts, ends, errors, records
    through.py    checks with a device: utilisation
    stages.py     checks of where the time goes
    check.py      a check and its rows      table.py   the rows as text

stdout is the JSON; the table goes to stderr, row by row. Uses device, measuring,
process, result and ipufeed.benchmark.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from ipufeed.benchmark.process.interrupts import Interrupts
from ipufeed.benchmark.process.streams import take_stdout
from ipufeed.exit_codes import FOUND_BAD, OK
from ipufeed.render.terminal import HelpFormatter, Parser, wrap

if TYPE_CHECKING:
    from ipufeed.benchmark.result.json_text import JsonObject
    from ipufeed.benchmark.selftest.check import Check, MeasureRows

# History: 1, the first one.
SCHEMA_VERSION = 1
NAMES = ("rates", "counts", "errors", "records", "device", "stages")
# A note is printed if other processes use more than this fraction of the CPUs.
BUSY_SHARE = 0.25

DESCRIPTION = """\
Measures datasets of known rates and counts, and compares: sources that sleep a
known time, datasets that end early or raise, records that must really be read,
devices that a free source must keep busy. Takes half a minute; a check that
fails is repeated once. stdout is the outcome as JSON, and stderr a table.
"""


def main(arguments: list[str]) -> int:
    """Runs the checks and returns the exit code: 0 passed, 1 failed, 2 bad input."""
    options = build_parser().parse_args(arguments)
    stdout = take_stdout()
    interrupts = Interrupts()
    interrupts.catch()
    try:
        outcome = run(options.only or list(NAMES), options.quick)
    except KeyboardInterrupt:
        _show(wrap("ipufeed.benchmark: interrupted: no check has a result."))
        return interrupts.code
    finally:
        interrupts.ignore()
    from ipufeed.benchmark.result.json_text import json_text

    with os.fdopen(stdout, "w", encoding="utf-8") as file:
        file.write(json_text(outcome) + "\n")
    return OK if outcome["passed"] else FOUND_BAD


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of `selftest`."""
    parser = Parser(
        prog="python -m ipufeed.benchmark selftest",
        description=DESCRIPTION,
        epilog="exit codes: 0 all passed, 1 one failed, 2 bad input, 130 Ctrl-C",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--quick", action="store_true", help="shorter runs: a third of the time"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=NAMES,
        metavar="CHECK",
        help=f"only this check: {', '.join(NAMES)}; may be repeated",
    )
    return parser


def run(names: list[str], quick: bool) -> JsonObject:
    """Runs the checks, prints their rows, and returns the outcome for the JSON."""
    from ipufeed import _native, _quiet_import

    with _quiet_import.quiet_stderr("3"):  # TensorFlow logs that there is not a GPU
        _native.load()
    from ipufeed.benchmark.measuring import machine
    from ipufeed.benchmark.selftest import table

    notes = []
    before = machine.Activity.now()
    rows = []
    _show([table.HEAD])
    for check in checks(names):
        found = check.run(quick)
        rows += found
        _show([table.text_of(row) for row in found])
    if any(row.repeated for row in rows):
        notes.append("* failed at first, and was measured a second time.")
    others = machine.Activity.now().others_since(before)
    notes += load_notes(others, machine.usable_cpus())
    failed = [row.what.strip() for row in rows if not row.passed]
    if not rows:
        notes.append("Nothing was checked.")
    else:
        passed = f"All {len(rows)} passed."
        notes.append(f"FAILED: {', '.join(failed)}." if failed else passed)
    for note in notes:
        _show(wrap(note))
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": bool(rows) and not failed,
        "quick": quick,
        "checks": [row.to_dict() for row in rows],
        "notes": notes,
        "machine": {**machine.fingerprint(), "cpus_used_by_others": others},
    }


def checks(names: list[str]) -> list[Check]:
    """Returns the checks of these names, in the order of NAMES."""
    from ipufeed.benchmark.selftest import plain, stages, through
    from ipufeed.benchmark.selftest.check import Check

    functions: dict[str, list[MeasureRows]] = {
        "rates": [partial(plain.planted_rate, ms) for ms in plain.RATES_MS],
        "counts": [plain.counts],
        "errors": [plain.errors],
        "records": [plain.records],
        "device": [through.free_source, through.slow_source, through.fast_source],
        "stages": [stages.stages],
    }
    return [
        Check(name, each) for name in NAMES if name in names for each in functions[name]
    ]


def load_notes(others: float | None, usable: int) -> list[str]:
    """Returns a warning if other processes used many of the CPUs, else nothing."""
    if others is None or others <= BUSY_SHARE * usable:
        return []
    return [
        f"warning: other processes kept {others:.1f} of {usable} CPUs busy during the "
        "checks. A check that fails here may pass on a quiet machine."
    ]


def _show(lines: list[str]) -> None:
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()
