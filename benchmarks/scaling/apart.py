"""Calls in processes of their own: threads, memory and configurations end with them."""

import importlib
import logging
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.scaling import Axis


def apart(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls `call` in a new process; pickles it, the arguments and the result."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(call, *arguments).result()


def measured(name: str, quick: bool) -> Axis:
    """Returns the axis of `benchmarks.scaling.axes.NAME`, measured in a new process."""
    found: Axis = apart(measured_here, name, quick)
    return found


def measured_here(name: str, quick: bool) -> Axis:
    """Returns the same, measured in this process, whose loggers it silences."""
    for name_of_logger in ("ipufeed", "tensorflow"):
        # A program is compiled for each number of components, replicas, ...
        logging.getLogger(name_of_logger).setLevel(logging.ERROR)
    module = importlib.import_module(f"benchmarks.scaling.axes.{name}")
    found: Axis = module.measure(quick)
    return found
