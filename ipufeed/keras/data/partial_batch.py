"""The refusal of data whose last batch is smaller than the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class PartialBatch:
    """A last batch that is smaller than the others.

    Attributes:
        size: The samples of each other batch.
        rest: The samples of the last one.
        of_arrays: Whether the caller's `batch_size` divides arrays into batches.
    """

    size: int
    rest: int
    of_arrays: bool = False

    def refuse(self, batches: int) -> NoReturn:
        """Raises ValueError with the numbers, and what to do.

        Args:
            batches: The number of batches, with the last one.
        """
        size, rest, whole = self.size, self.rest, (batches - 1) * self.size
        samples = whole + rest
        found = (
            f"the last of {batches} batches has the size {rest}, the first one {size}"
        )
        way = "Pad it, or leave it out"
        if self.of_arrays:
            found = (
                f"{samples} samples in batches of {size} leave a last batch of {rest}"
            )
            fits = next(n for n in range(size, 0, -1) if samples % n == 0)
            cut = f" or shorten it to {whole}" if whole else ""
            way = (
                f"Either adjust the `batch_size` of your model (currently set to {size}) "
                f"to a divisor of {samples}, such as {fits}, or pad your dataset to "
                f"{whole + size} samples{cut}, to ensure there are no partial batches"
            )
        raise ValueError(
            "The provided set of data has a partial batch, which could result in data "
            f"being dropped: {found}. {way}."
        )
