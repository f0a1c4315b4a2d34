"""Checks the arguments of the queues: capacities of rings, and those of older releases.

IPUInfeedQueue(dataset, "feed", 0, 1)    ->  feed_name, device_ordinal, ...
IPUOutfeedQueue("feed", outfeed_mode)    ->  feed_name, outfeed_mode
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ipufeed.checks import is_int
from ipufeed.no_effect import no_effect

MOST_PREFETCH_DEPTH = 255
# As kMostCapacity in ipufeed/cc/feeds/outfeed.h.
MOST_BUFFER_DEPTH = 1 << 16

Initializer = TypeVar("Initializer", bound=Callable[..., None])

# Arguments of older releases -> why they have no effect.
_WITHOUT_EFFECT = {
    "feed_name": "queues have numbers, which do not clash",
    "replication_factor": "a program's replicas are as many as its device has IPUs for",
    "data_to_prefetch": "`prefetch_depth` has taken its place",
    "io_batch_size": "results are transferred one by one",
}


def check_prefetch_depth(depth: object) -> int | None:
    """Returns the depth; None, for the default, instead of 0.

    Raises:
        ValueError: It is not an integer in [0, 255].
    """
    if depth is None:
        return None
    if not is_int(depth):
        raise ValueError(
            f"prefetch_depth must be an integer, but it is {depth!r} of type "
            f"{type(depth).__name__}"
        )
    if depth < 0:  # in the words of the original; 0 is the default here
        raise ValueError(f"prefetch_depth must be greater than zero, but it is {depth}")
    if depth > MOST_PREFETCH_DEPTH:
        raise ValueError(f"prefetch_depth must be less than 256, but it is {depth}")
    return int(depth) or None


def check_buffer_depth(buffer_depth: object) -> int:
    """Returns the depth of a ring.

    Raises:
        ValueError: It is not an integer, or out of range.
    """
    if not is_int(buffer_depth):
        raise ValueError(
            f"Outfeed buffer depth must be an integer, got {buffer_depth!r}."
        )
    if buffer_depth <= 0:
        raise ValueError(
            f"Outfeed buffer depth cannot be less than 1, got {buffer_depth}."
        )
    if buffer_depth > MOST_BUFFER_DEPTH:
        raise ValueError(
            f"Outfeed buffer depth cannot be more than {MOST_BUFFER_DEPTH}, got "
            f"{buffer_depth}. Results that do not fit into the ring are kept behind "
            "it: a ring of a few elements is enough."
        )
    return int(buffer_depth)


def named_by_position(
    position: int, *following: str
) -> Callable[[Initializer], Initializer]:
    """Decorates a queue's __init__: takes the positions of the releases with feed names.

    There a queue's name, a str, has a position of its own, and other arguments follow it.

    Args:
        position: That of the name, not counting `self`.
        *following: The names of the arguments that may be given behind it.
    """

    def decorated(function: Initializer) -> Initializer:
        @functools.wraps(function)
        def initialise(self: Any, *arguments: Any, **keywords: Any) -> None:
            values = arguments[position:]
            if values and isinstance(values[0], str):
                names = ("feed_name", *following)
                if len(values) > len(names):
                    raise TypeError(
                        f"{type(self).__name__}() takes at most "
                        f"{position + len(names)} arguments by position with a "
                        f"`feed_name`, got {len(arguments)}."
                    )
                for name, value in zip(names, values, strict=False):
                    if name in keywords:
                        raise TypeError(
                            f"{type(self).__name__}() got multiple values for argument "
                            f"'{name}'"
                        )
                    keywords[name] = value
                arguments = arguments[:position]
            function(self, *arguments, **keywords)

        return cast(Initializer, initialise)

    return decorated


def drop_old_arguments(kwargs: dict[str, Any], kind: str, *names: str) -> None:
    """Accepts the arguments of older releases with a warning.

    Raises:
        TypeError: Another argument, with Python's message; or `feed_name` is not a str.
    """
    for name in kwargs:
        if name not in names:
            raise TypeError(f"{kind}() got an unexpected keyword argument '{name}'")
    check_feed_name(kwargs.get("feed_name"))
    for name in kwargs:
        no_effect(f"{kind}({name}=)", _WITHOUT_EFFECT[name])


def check_feed_name(name: object) -> None:
    """Raises TypeError unless the name of a feed is a str or None."""
    if not isinstance(name, str | None):
        raise TypeError(
            f"`feed_name` must be a str or None, got {type(name).__name__} {name!r}."
        )
