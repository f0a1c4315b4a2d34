"""Warns of random operations on an IPU that the device's seed does not reach.

The warning is logged once for each operation, when a program contains it and
`reset_ipu_seed` has been called, in either order.

    built on an IPU ---> after reset_ipu_seed: a warning
          |
          +--> recorded; at reset_ipu_seed: a warning

Threads: any.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from tensorflow.python.ops import stateful_random_ops

from ipufeed.device.random.ops import on_ipu
from ipufeed.device.system.seeds import has_seeds
from ipufeed.no_effect import warn_once
from ipufeed.process_state import STATE
from ipufeed.tf_types import Nest, NestFunction

_SAMPLER = (
    "sample the classes with tf.random.log_uniform_candidate_sampler or "
    "uniform_candidate_sampler, which draw the device's seeds, or in the dataset"
)
_POOLING = "give it a seed, which makes it deterministic"
GENERATOR = "tf.random.Generator.from_non_deterministic_state"
# Name of the function in TensorFlow's module of ops -> the remedy.
CANDIDATES = {
    "fixed_unigram_candidate_sampler": _SAMPLER,
    "learned_unigram_candidate_sampler": _SAMPLER,
    "thread_unsafe_unigram_candidate_sampler": _SAMPLER,
}
POOLING = {"fractional_avg_pool": _POOLING, "fractional_max_pool": _POOLING}

_lock = threading.Lock()
_built: dict[str, str] = {}


def note(name: str, remedy: str) -> None:
    """Warns of an operation that is built, now or at the next `reset_ipu_seed`."""
    with _lock:
        _built[name] = remedy
    if has_seeds():
        warn_of_built()


def warn_of_built(*reset: object) -> None:
    """Warns of the operations that were built before the reset; for `on_seed`."""
    del reset
    with _lock:
        noted = dict(_built)
        _built.clear()
    for name, remedy in noted.items():
        _warn(name, remedy)


@STATE.part("random_ops")
def forget() -> None:
    """Clears the recorded operations, as in a new process."""
    with _lock:
        _built.clear()


def _warn(name: str, remedy: str) -> None:
    warn_once(
        f"unreached {name}",
        "`reset_ipu_seed` does not reach the random numbers of %s, which come from "
        "another generator, and does not repeat them. Remedy: %s.",
        name,
        remedy,
    )


def noted(
    original: NestFunction, name: str, remedy: str, is_seeded: bool = False
) -> NestFunction:
    """Wraps a function that builds an op of TensorFlow to record it on an IPU.

    Args:
        original: The function.
        name: The op's name in the warning.
        remedy: The remedy in the warning.
        is_seeded: Whether its argument `deterministic` makes its own seed effective.
    """

    @functools.wraps(original)
    def build(*arguments: Any, **keywords: Any) -> Nest:
        by_its_seed = is_seeded and (
            keywords.get("deterministic") or any(arguments[4:5])
        )
        if not by_its_seed and on_ipu():
            note(name, remedy)
        return original(*arguments, **keywords)

    return build


def note_generators(replace: Callable[[Any, str, Any], None]) -> None:
    """Makes generators of a non-deterministic state record that an IPU uses them."""
    kind = stateful_random_ops.Generator
    begin = kind.from_non_deterministic_state.__func__
    skip = kind._skip_single_var

    @functools.wraps(begin)
    def marked(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        made = begin(cls, *arguments, **keywords)
        made._ipufeed_unseeded = True
        return made

    @functools.wraps(skip)
    def drawing(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if getattr(self, "_ipufeed_unseeded", False) and on_ipu():
            note(GENERATOR, "create it with from_seed, or call its reset_from_seed")
        return skip(self, *arguments, **keywords)

    replace(kind, "from_non_deterministic_state", classmethod(marked))
    replace(kind, "_skip_single_var", drawing)
    for name in ("reset", "reset_from_seed", "reset_from_key_counter"):
        replace(kind, name, _determined(getattr(kind, name)))


def _determined(method: Callable[..., Any]) -> NestFunction:
    @functools.wraps(method)
    def reset(self: Any, *arguments: Any, **keywords: Any) -> Any:
        self._ipufeed_unseeded = False
        return method(self, *arguments, **keywords)

    return reset
