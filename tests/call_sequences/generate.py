"""Random calls, of few kinds of programs."""

from __future__ import annotations

import random
from typing import Any

from call_sequences.model import SHAPES, STRUCTURES

# A call: the name of a method of World, and its arguments.
Call = tuple[str, dict[str, Any]]

SLOTS = (0, 1)
DTYPES = ("float32", "int32", "float16")
SHORTEST, LONGEST = 3, 16


def sequence(seed: int, number: int) -> list[Call]:
    """The calls of one sequence: the same for the same numbers."""
    rng = random.Random(f"{seed} {number}")
    calls: list[Call] = [make_infeed(rng, 0), make_outfeed(rng, 0)]
    names, weights = zip(*KINDS.items(), strict=True)
    for kind in rng.choices(names, weights, k=rng.randint(SHORTEST, LONGEST)):
        calls.append(MAKERS[kind](rng, rng.choice(SLOTS) if rng.random() < 0.3 else 0))
    return calls


def make_infeed(rng: random.Random, slot: int) -> Call:
    size = rng.choice([1, 2, 5, 8, 40])
    arguments: dict[str, Any] = {"slot": slot, "size": size}
    if rng.random() < 0.2:
        arguments["fails"] = True
    if rng.random() < 0.3:
        arguments["dtype"] = rng.choice(DTYPES)
    if rng.random() < 0.3:
        arguments["shape"] = rng.choice(list(SHAPES))
    if rng.random() < 0.3:
        arguments["depth"] = rng.choice([1, 2, 3])
    if rng.random() < 0.15:
        arguments["gated_at"] = rng.randrange(size)
    return "infeed", arguments


def make_outfeed(rng: random.Random, slot: int) -> Call:
    arguments: dict[str, Any] = {"slot": slot}
    if rng.random() < 0.25:
        arguments["last"] = True
    if rng.random() < 0.3:
        arguments["depth"] = rng.choice([1, 2, 8])
    return "outfeed", arguments


def make_run(rng: random.Random, slot: int) -> Call:
    arguments: dict[str, Any] = {"outfeed": slot, "count": rng.choice([0, 1, 2, 3, 9])}
    if rng.random() < 0.75:
        arguments["infeed"] = rng.choice(SLOTS) if rng.random() < 0.3 else 0
    else:
        if rng.random() < 0.4:
            arguments["dtype"] = rng.choice(DTYPES)
        if rng.random() < 0.4:
            arguments["shape"] = rng.choice(list(SHAPES))
    if rng.random() < 0.2:
        arguments["then"] = rng.choice([0, 1, 2])
    if rng.random() < 0.15:
        arguments["fuse"] = rng.choice(SLOTS)
    if rng.random() < 0.3:
        arguments["structure"] = rng.choice(STRUCTURES)
    return "run", arguments


def make_cancel(rng: random.Random, slot: int) -> Call:
    return "cancel", {"infeed": slot, "outfeed": 0, "count": rng.choice([3, 9, 50])}


def make_configure(rng: random.Random, slot: int) -> Call:
    del slot
    return "configure", {"ipus": rng.choice([0, 1, 2, 2])}


def make_executor(rng: random.Random, slot: int) -> Call:
    del slot
    return "set_executor", {"name": rng.choice(["xla", "tensorflow"])}


def make_drop(rng: random.Random, slot: int) -> Call:
    return "drop", {"kind": rng.choice(["infeed", "outfeed"]), "slot": slot}


def reads(name: str) -> Any:
    """Makes calls that read a limited number of results."""

    def make(rng: random.Random, slot: int) -> Call:
        return name, {"slot": slot, "most": rng.choice([1, 2, 5, 100])}

    return make


def of_slot(name: str) -> Any:
    """Makes calls without other arguments."""

    def make(rng: random.Random, slot: int) -> Call:
        del rng
        return name, {"slot": slot}

    return make


MAKERS = {
    "infeed": make_infeed,
    "outfeed": make_outfeed,
    "start": of_slot("start"),
    "delete_infeed": of_slot("delete_infeed"),
    "delete_outfeed": of_slot("delete_outfeed"),
    "drop": make_drop,
    "configure": make_configure,
    "set_executor": make_executor,
    "run": make_run,
    "cancel": make_cancel,
    "dequeue": of_slot("dequeue"),
    "iterate": reads("iterate"),
    "stream": reads("stream"),
}
# How often each comes.
KINDS = {
    "infeed": 5,
    "outfeed": 4,
    "start": 3,
    "delete_infeed": 2,
    "delete_outfeed": 4,
    "drop": 2,
    "configure": 5,
    "set_executor": 2,
    "run": 40,
    "cancel": 4,
    "dequeue": 13,
    "iterate": 9,
    "stream": 9,
}
