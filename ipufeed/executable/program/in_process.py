"""The programs that this process has compiled or read, for those that must not compile."""

from __future__ import annotations

from collections.abc import Callable

from ipufeed.executable.program.program import Program

_find: Callable[[], list[Program]] = list


def set_programs(find: Callable[[], list[Program]]) -> None:
    """Sets what finds them; until then there are none."""
    global _find
    _find = find


def programs() -> list[Program]:
    """Returns them in the order in which they came."""
    return _find()
