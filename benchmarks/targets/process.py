"""The rows of a module, from a process of its own.

A configuration of the IPUs, a thread or memory that one module leaves would change what the
next one measures.
"""

import importlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from benchmarks.targets import Row, speed


def measured(name: str, quick: bool) -> list[Row]:
    """Returns the rows of the module `benchmarks.targets.NAME`."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(rows_here, name, quick).result()


def rows_here(name: str, quick: bool) -> list[Row]:
    """Returns the same, measured by this process, with the slack of the machine's speed."""
    module = importlib.import_module(f"benchmarks.targets.{name}")
    before = speed.additions()
    found: list[Row] = module.rows(quick)
    return speed.with_slack(found, speed.slowness([before, speed.additions()]))
