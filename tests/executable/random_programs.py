"""Random programs in pairs: of one key, or of two with a planted cause.

A Recipe is a program as data; `build` writes it as Python source, so that the same
program can have other names and other lines. `SAME` and `OTHER` are what is done to it.

    python random_programs.py SEED COUNT    prints the keys: for a second process
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import seeds

UNARY = ("tf.nn.relu", "tf.tanh", "tf.exp", "tf.sigmoid", "tf.sin")


@dataclass(frozen=True)
class Recipe:
    """A program.

    Attributes:
        batch: Rows of its argument.
        width: Columns.
        dtype: Of the argument.
        factor: A constant that is baked in.
        swapped: Whether the subtraction at the end is the other way round.
        steps: Unary functions, one after another.
        matrix: The seed of a matrix that is baked in, or None.
        ipus: Of the target.
        tiles: Of an IPU, 0 for the default.
        rate: The value of its second argument.
    """

    batch: int
    width: int
    dtype: str
    factor: float
    swapped: bool
    steps: tuple[str, ...]
    matrix: int | None
    ipus: int = 1
    tiles: int = 0
    rate: float = 0.1


def recipe(seed: int) -> Recipe:
    """The same for the same seed of the run and number, wherever it is asked."""
    rng = seeds.generator(seed)
    return Recipe(
        batch=rng.randrange(2, 40),
        width=rng.randrange(2, 20),
        dtype="float32",
        factor=round(rng.uniform(0.1, 0.9), 3),
        swapped=rng.random() < 0.5,
        steps=tuple(rng.choices(UNARY, k=rng.randrange(1, 6))),
        matrix=rng.choice([None, seed]),
    )


def source(recipe: Recipe, name: str = "net", lines: int = 0) -> str:
    """The program as text, `lines` lines further down."""
    text = ["\n" * lines + f"def {name}(x, rate):", "    first = x * factor"]
    text += ["    y = first"]
    text += [f"    y = {step}(y)" for step in recipe.steps]
    if recipe.matrix is not None:
        text += ["    y = tf.matmul(y, matrix)"]
    text += ["    y = x - y" if recipe.swapped else "    y = y - x"]
    return "\n".join([*text, "    return tf.reduce_mean(y * rate)", ""])


def build(recipe: Recipe, name: str = "net", lines: int = 0) -> Callable[..., Any]:
    """The program as a function."""
    import tensorflow as tf

    rng = np.random.default_rng(recipe.matrix)
    names = {
        "tf": tf,
        "factor": np.asarray(recipe.factor, recipe.dtype),
        "matrix": rng.normal(size=(recipe.width, recipe.width)).astype(recipe.dtype),
    }
    exec(source(recipe, name, lines), names)
    function: Callable[..., Any] = names[name]
    return function


def arguments(recipe: Recipe) -> list[Any]:
    """Of the program."""
    return [
        np.ones((recipe.batch, recipe.width), recipe.dtype),
        np.asarray(recipe.rate, recipe.dtype),
    ]


# What makes another program, and a word of the explanation that names it.
OTHER: dict[str, tuple[Callable[[Recipe], Recipe], Callable[[Recipe], str]]] = {
    "batch size": (
        lambda r: replace(r, batch=r.batch + 3),
        lambda r: (
            f"argument `x` changed shape [{r.batch},{r.width}] -> "
            f"[{r.batch + 3},{r.width}] (batch size)"
        ),
    ),
    "dtype": (
        lambda r: replace(r, dtype="float16"),
        lambda r: "argument `x` changed dtype float32 -> float16",
    ),
    "constant": (
        lambda r: replace(r, factor=r.factor + 1),
        lambda r: (
            f"constant {np.float32(r.factor)!s} -> {np.float32(r.factor + 1)!s} "
            "baked into `mul`: pass it as an input"
        ),
    ),
    "operand order": (
        lambda r: replace(r, swapped=not r.swapped),
        lambda r: "operands of `sub` are swapped",
    ),
    "extra op": (
        lambda r: replace(r, steps=(*r.steps[:1], "tf.abs", *r.steps[1:])),
        lambda r: "op `Abs` (Abs) is new",
    ),
    "IPUs": (
        lambda r: replace(r, ipus=2),
        lambda r: "the target's number of IPUs changed 1 -> 2",
    ),
    "tiles": (
        lambda r: replace(r, tiles=16),
        lambda r: "tiles_per_ipu changed 0 -> 16",
    ),
}


def configure(recipe: Recipe) -> None:
    """The simulated machine that a program is for: two devices of it."""
    import ipufeed

    config = ipufeed.IPUConfig()
    config.auto_select_ipus = [recipe.ipus] * 2
    if recipe.tiles:
        config.ipu_model.tiles_per_ipu = recipe.tiles
    config.configure_ipu_system()


def main() -> None:
    """Prints a key per line."""
    from lowering import lowering

    first, count = int(sys.argv[1]), int(sys.argv[2])
    configure(recipe(first))
    with lowering() as lower:
        for seed in range(first, first + count):
            each = recipe(seed)
            print(lower(build(each), *arguments(each)).key.hex)  # noqa: T201


if __name__ == "__main__":
    main()
