"""Runs sequences one after the other, and makes those shorter that show a fault."""

from __future__ import annotations

import faulthandler
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from call_sequences.checking import FaultError
from call_sequences.generate import Call, sequence

HANG_S = 60.0  # for one call; only a hang gets there


def run_calls(
    calls: list[Call], log: Any = None, hang_s: float = HANG_S
) -> FaultError | None:
    """Runs the calls in a new World; the fault of one of them, or None.

    Args:
        calls: The calls.
        log: A file that each call is written to before it runs.
        hang_s: After which time in one call all stacks go to stderr, and the process ends.
    """
    from call_sequences.world import World

    world = World()
    try:
        for name, arguments in calls:
            if log is not None:
                log.write(json.dumps([name, arguments]) + "\n")
                log.flush()
            faulthandler.dump_traceback_later(hang_s, exit=True)
            getattr(world, name)(**arguments)
    except FaultError as fault:
        return fault
    finally:
        faulthandler.dump_traceback_later(hang_s, exit=True)
        world.close()
        faulthandler.cancel_dump_traceback_later()
    return None


def run_sequences(
    seed: int,
    numbers: range,
    log_path: Path | None = None,
    hang_s: float = HANG_S,
    keep_going: bool = False,
) -> list[str]:
    """Runs the sequences of these numbers; returns a text for each fault.

    It ends with the first one, unless it is to keep going.
    """
    found = []
    for number in numbers:
        calls = sequence(seed, number)
        with open(os.devnull if log_path is None else log_path, "w") as log:
            log.write(f"{number}\n")
            fault = run_calls(calls, log, hang_s)
        if fault is None:
            continue
        if not keep_going:
            calls = shrink(
                calls, lambda fewer: run_calls(fewer, None, hang_s) is not None
            )
        found.append(report(seed, number, calls, str(run_calls(calls) or fault)))
        if not keep_going:
            break
    return found


def shrink(calls: list[Call], fails: Callable[[list[Call]], bool]) -> list[Call]:
    """Leaves out calls, from the last to the first, as long as it still fails."""
    smaller = True
    while smaller:
        smaller = False
        for i in reversed(range(len(calls))):
            fewer = calls[:i] + calls[i + 1 :]
            if fewer and fails(fewer):
                calls, smaller = fewer, True
    return calls


def report(seed: int, number: int, calls: list[Call], what: str) -> str:
    """The fault, where it was found, and a script that shows it."""
    lines = [f"IPUFEED_TEST_SEED={seed}, sequence {number}: {what}", "", script(calls)]
    return "\n".join(lines)


def script(calls: list[Call]) -> str:
    """The calls as a program; PYTHONPATH must name the folders above and `tests`."""
    lines = [
        "import ipufeed  # noqa: F401",
        "from call_sequences.world import World",
        "",
    ]
    lines.append("world = World()")
    for name, arguments in calls:
        text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        lines.append(f"world.{name}({text})")
    return "\n".join(lines) + "\n"
