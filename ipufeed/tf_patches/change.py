"""One row of the table of changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """A replaced attribute.

    Attributes:
        why: What the replacement does that the original does not.
        where: The module of ipufeed that makes the replacement.
        test: The test file that fails without it.
    """

    why: str
    where: str
    test: str
