"""Synthetic data: the categories that are not transferred, and their values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class SyntheticDataCategory(Enum):
    """A kind of data that is not transferred; the value is its name in the flag."""

    Infeed = "infeed"
    Outfeed = "outfeed"
    Seed = "seed"
    HostEmbedding = "hostembedding"
    Parameters = "parameters"

    # Other spellings that programs use.
    InFeed = "infeed"
    OutFeed = "outfeed"
    INFEED = "infeed"
    OUTFEED = "outfeed"
    SEED = "seed"
    HOST_EMBEDDING = "hostembedding"
    PARAMETERS = "parameters"


# In the order of Graphcore's numbers.
IN_ORDER = (
    SyntheticDataCategory.Seed,
    SyntheticDataCategory.Infeed,
    SyntheticDataCategory.Outfeed,
    SyntheticDataCategory.HostEmbedding,
    SyntheticDataCategory.Parameters,
)


class InitializerKind(Enum):
    """The values of synthetic data.

    `NONE`: the memory is not initialised. `CONSTANT`: a number. `UNIFORM`: the whole range
    of the type. `NORMAL`: N(0, 1), for integers the constant 1. `RANDOM`: as `UNIFORM`.
    """

    NONE = ""
    CONSTANT = "number"
    UNIFORM = "uniform"
    NORMAL = "normal"
    RANDOM = "random"


@dataclass(frozen=True)
class SyntheticDataInitializer:
    """The value of `--synthetic_data_initializer`.

    Attributes:
        kind: The kind of values.
        value: The number, for CONSTANT; 0.0 otherwise.
    """

    kind: InitializerKind
    value: float = 0.0

    @property
    def constant(self) -> int:
        """The value of tensors for CONSTANT: the number's integer part."""
        return int(self.value)


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def parse_initializer(text: str) -> SyntheticDataInitializer:
    """Parses the value of `--synthetic_data_initializer`; "" is NONE.

    Raises:
        ValueError: It is neither a number nor one of the names.
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
    """Parses the value of `--synthetic_data_categories`, names separated by commas.

    Raises:
        ValueError: A name is not a category.
    """
    known = {category.value: category for category in SyntheticDataCategory}
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if not set(names) <= set(known):
        raise ValueError(
            f"Using an unknown synthetic data category in: {text}. "
            f"The categories are {', '.join(known)}."
        )
    return frozenset(known[name] for name in names)
