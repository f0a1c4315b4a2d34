"""CPU time of this process and of those that it has started: a loader's workers."""

from __future__ import annotations

import os

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
PROC = "/proc"


def tree_cpu_ns() -> int:
    """Of this process, of all below it that live, and of those that were waited for.

    In ticks of the kernel, 10 ms each, for the others. What a worker has used that ended
    and was not waited for by its parent is not seen.
    """
    times = os.times()
    own = round((times.user + times.system) * 1e9)
    waited_for = round((times.children_user + times.children_system) * 1e9)
    return own + waited_for + sum(children_ns(os.getpid(), table()))


def table() -> dict[int, list[tuple[int, int]]]:
    """By parent: process and CPU time in ns, that of its dead children included."""
    found: dict[int, list[tuple[int, int]]] = {}
    try:
        names = os.listdir(PROC)
    except OSError:
        return found
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"{PROC}/{name}/stat", "rb") as file:
                # A command's name may hold spaces and parentheses.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        parent, ticks = int(fields[1]), sum(int(field) for field in fields[11:15])
        found.setdefault(parent, []).append((int(name), ticks * TICK_NS))
    return found


def children_ns(process: int, by_parent: dict[int, list[tuple[int, int]]]) -> list[int]:
    """CPU times of all below a process."""
    times: list[int] = []
    waiting = [process]
    while waiting:
        for child, ns in by_parent.get(waiting.pop(), []):
            times.append(ns)
            waiting.append(child)
    return times
