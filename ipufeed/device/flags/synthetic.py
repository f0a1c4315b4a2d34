"""Synthetic data: what is not transferred, and what stands in its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class SyntheticDataCategory(Enum):
    """What need not be transferred. A value is the category's name in the flag."""

    Infeed = "infeed"
    Outfeed = "outfeed"
    Seed = "seed"
    HostEmbedding = "hostembedding"
    Parameters = "parameters"

    # Spellings that are in use.
    InFeed = "infeed"
    OutFeed = "outfeed"
    INFEED = "infeed"
    OUTFEED = "outfeed"
    SEED = "seed"
    HOST_EMBEDDING = "hostembedding"
    PARAMETERS = "parameters"


# The original's members are the numbers of these.
IN_ORDER = (
    SyntheticDataCategory.Seed,
    SyntheticDataCategory.Infeed,
    SyntheticDataCategory.Outfeed,
    SyntheticDataCategory.HostEmbedding,
    SyntheticDataCategory.Parameters,
)


class InitializerKind(Enum):
    """How synthetic data is made.

    `NONE`: it is left as the memory is. `CONSTANT`: a number. `UNIFORM`: all of the
    type's range. `NORMAL`: N(0, 1), in integers the constant 1. `RANDOM`: as `UNIFORM`.
    """

    NONE = ""
    CONSTANT = "number"
    UNIFORM = "uniform"
    NORMAL = "normal"
    RANDOM = "random"


@dataclass(frozen=True)
class SyntheticDataInitializer:
    """What synthetic data is filled with.

    Attributes:
        kind: How it is made.
        value: The number, for CONSTANT; 0.0 otherwise.
    """

    kind: InitializerKind
    value: float = 0.0

    @property
    def constant(self) -> int:
        """What tensors are filled with for CONSTANT: the number's integer part."""
        return int(self.value)


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def parse_initializer(text: str) -> SyntheticDataInitializer:
    """Understands the value of `--synthetic_data_initializer`; "" is NONE.

    Raises:
        ValueError: it is neither a number nor one of the names.
    """
    if _NUMBER.fullmatch(text) and abs(float(text)) != float("inf"):
        return SyntheticDataInitializer(InitializerKind.CONSTANT, float(text))
    names = [kind.value for kind in InitializerKind if kind.value != "number"]
    if text not in names:
        raise ValueError(
            "`synthetic_data_initializer` must be a number, uniform, normal or random, "
            f"got {text!r}."
        )
    return SyntheticDataInitializer(InitializerKind(text))


def parse_categories(text: str) -> frozenset[SyntheticDataCategory]:
    """Understands the value of `--synthetic_data_categories`, names between commas.

    Raises:
        ValueError: a name is not a category.
    """
    known = {category.value: category for category in SyntheticDataCategory}
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if not set(names) <= set(known):
        raise ValueError(
            f"Using an unknown synthetic data category in: {text}. "
            f"The categories are {', '.join(known)}."
        )
    return frozenset(known[name] for name in names)
