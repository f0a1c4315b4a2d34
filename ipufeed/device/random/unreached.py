"""Random operations on an IPU that the device's seed does not reach: a warning says so.

It comes once for each, when a program has one and `reset_ipu_seed` has been called,
whichever is first. Where the seed is not used, there is nothing to say.

    built on an IPU ---> with a seed of the device's: a warning
          |
          +--> remembered; reset_ipu_seed -> a warning

Threads: any.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ipufeed.device.random.ops import on_ipu
from ipufeed.device.system.seeds import has_seeds
from ipufeed.no_effect import warn_once
from ipufeed.process_state import STATE

_SAMPLER = (
    "sample the classes with tf.random.log_uniform_candidate_sampler or "
    "uniform_candidate_sampler, which draw the device's seeds, or in the dataset"
)
_POOLING = "give it a seed, which makes it deterministic"
GENERATOR = "tf.random.Generator.from_non_deterministic_state"
# What to do about the ops of TensorFlow, by their names in its modules.
CANDIDATES = {
    "fixed_unigram_candidate_sampler": _SAMPLER,
    "learned_unigram_candidate_sampler": _SAMPLER,
    "thread_unsafe_unigram_candidate_sampler": _SAMPLER,
}
POOLING = {"fractional_avg_pool": _POOLING, "fractional_max_pool": _POOLING}

_lock = threading.Lock()
_built: dict[str, str] = {}


def note(name: str, way_out: str) -> None:
    """Warns of an operation that is built now, or at the next `reset_ipu_seed`."""
    with _lock:
        _built[name] = way_out
    if has_seeds():
        warn_of_built()


def warn_of_built(*reset: object) -> None:
    """For `on_seed`: warns of what has been built before the reset."""
    del reset
    with _lock:
        noted = dict(_built)
        _built.clear()
    for name, way_out in noted.items():
        _warn(name, way_out)


@STATE.part("random_ops")
def forget() -> None:
    """Forgets what has been built, as in a new process."""
    with _lock:
        _built.clear()


def _warn(name: str, way_out: str) -> None:
    warn_once(
        f"unreached {name}",
        "`reset_ipu_seed` does not reach the random numbers of %s, which come from "
        "another generator, and does not repeat them. The way out: %s.",
        name,
        way_out,
    )


def noted(
    original: Callable[..., Any], name: str, way_out: str, is_seeded: bool = False
) -> Callable[..., Any]:
    """An op of TensorFlow that notes where it is built.

    is_seeded: with the argument `deterministic` its own seed says what it draws.
    """

    @functools.wraps(original)
    def build(*arguments: Any, **keywords: Any) -> Any:
        by_its_seed = is_seeded and (
            keywords.get("deterministic") or any(arguments[4:5])
        )
        if not by_its_seed and on_ipu():
            note(name, way_out)
        return original(*arguments, **keywords)

    return build


def note_generators(replace: Callable[[Any, str, Any], None]) -> None:
    """Makes generators whose state nothing determines note that an IPU draws from them."""
    from tensorflow.python.ops import stateful_random_ops

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
            note(GENERATOR, "make it with from_seed, or call its reset_from_seed")
        return skip(self, *arguments, **keywords)

    replace(kind, "from_non_deterministic_state", classmethod(marked))
    replace(kind, "_skip_single_var", drawing)
    for name in ("reset", "reset_from_seed", "reset_from_key_counter"):
        replace(kind, name, _determined(getattr(kind, name)))


def _determined(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def reset(self: Any, *arguments: Any, **keywords: Any) -> Any:
        self._ipufeed_unseeded = False
        return method(self, *arguments, **keywords)

    return reset
