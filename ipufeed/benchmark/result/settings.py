"""The settings of a measurement."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ipufeed.checks import as_int, as_number

DEFAULT_SECONDS = 10.0
EPOCH_SECONDS = 1.0
MOST = 2**31  # so that the product of two counts stays within 64 bits


class SettingError(ValueError):
    """A setting is out of range, or excludes another.

    Args:
        template: The message, with {} for each setting's name, and names of values.
        *names: Of the settings, in the template's order.
        **values: Text of the user, which may contain braces, by its name in the template.

    The message has the names in backticks; `worded` rewrites it for callers that give the
    settings other names, such as the command line.
    """

    def __init__(self, template: str, *names: str, **values: object) -> None:
        super().__init__(template.format(*(f"`{name}`" for name in names), **values))
        self._template, self._names, self._values = template, names, values

    def worded(self, word: Callable[[str], str]) -> str:
        """Returns the message with `word(name)` for each setting's name."""
        return self._template.format(*map(word, self._names), **self._values)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much of a dataset to measure, and how.

    An epoch is `elements` elements if that is given, a pass over the dataset if `passes`
    is, and otherwise about one second. The iterator is not restarted between epochs.

    Args:
        epochs: Stop after this many epochs, at least 1. Default: no bound.
        elements: Elements of an epoch, at least 1.
        seconds: Stop this many seconds after the first element, above 0. Default: 10, and
            no bound if `epochs` or `passes` is given.
        passes: Iterate a finite dataset this many times, at least 1. Default: once, or
            until another bound is met. Not with `epochs` or `elements`.
        memcpy: Copy each element into a page-aligned buffer, as a transfer to a device
            would; the copies' time is reported separately. Default: True.
        items_per_element: Samples in one element, above 0. Default: the leading
            dimension where the pipeline batches, else 1.

    Raises:
        TypeError: A value is not a number.
        SettingError: (a ValueError) A value is out of range, or two exclude each other.
    """

    epochs: int | None = None
    elements: int | None = None
    seconds: float | None = None
    passes: int | None = None
    memcpy: bool = True
    items_per_element: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "elements", "passes"):
            value = getattr(self, name)
            if value is None:
                continue
            count = as_int(name, value)
            if not 1 <= count <= MOST:
                raise SettingError(f"{{}} must be in [1, {MOST}], got {count}.", name)
            object.__setattr__(self, name, count)
        for name in ("seconds", "items_per_element"):
            value = getattr(self, name)
            if value is None:
                continue
            amount = as_number(name, value)
            if not (math.isfinite(amount) and 0 < amount <= 1e9):
                raise SettingError(f"{{}} must be in (0, 1e9], got {amount}.", name)
            object.__setattr__(self, name, amount)
        if not isinstance(self.memcpy, bool):
            raise TypeError(
                f"`memcpy` must be a bool, got {type(self.memcpy).__name__} "
                f"{self.memcpy!r}."
            )
        if self.passes is not None and (self.epochs or self.elements):
            raise SettingError(
                "{} excludes {} and {}: an epoch is then one pass.",
                *("passes", "epochs", "elements"),
            )

    @property
    def time_limit(self) -> float | None:
        """Seconds after the first element, or None for no bound."""
        if self.seconds is not None:
            return self.seconds
        return None if self.epochs or self.passes else DEFAULT_SECONDS

    @property
    def requested_elements(self) -> int | None:
        """The epochs' elements together, if `epochs` and `elements` are given."""
        return self.epochs * self.elements if self.epochs and self.elements else None
