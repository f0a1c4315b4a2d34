"""What two programs take and exchange with queues: arguments and feeds, by name.

A batch size shows as the same first dimension in several of them, and is named once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.hlo.hlo import Instruction, Module, Shape
from ipufeed.executable.program.program import Program
from ipufeed.render.terminal_text import enumeration
from ipufeed.render.units import counted

DTYPES = {
    "pred": "bool",
    "s": "int",
    "u": "uint",
    "f": "float",
    "bf": "bfloat",
    "c": "complex",
}
KEEP_BATCH = (
    "keep it the same (`drop_remainder=True` for datasets, padding for a last batch)"
)


@dataclass(frozen=True)
class Port:
    """An argument, or a component of a feed's elements.

    Attributes:
        kind: "argument" or "feed".
        name: In a sentence, such as "argument `x`".
        shape: Of its value.
        bears_batch: Whether its first dimension may be a batch: not that of a variable.
    """

    kind: str
    name: str
    shape: Shape
    bears_batch: bool = True


def dtype_name(name: str) -> str:
    """XLA's name of an element type as NumPy and TensorFlow write it."""
    letters = name.rstrip("0123456789")
    if letters in DTYPES:
        return DTYPES[letters] + name[len(letters) :]
    return name


def brackets(shape: Shape) -> str:
    """The dimensions: [32,28,28]."""
    return f"[{','.join(map(str, shape.dims))}]"


def argument_ports(program: Program, module: Module) -> list[Port]:
    """What a program takes, in order."""
    return [
        Port("argument", program.describe(n), shape, program.kind(n) != "variable")
        for n, shape in enumerate(module.parameters)
    ]


def feed_ports(module: Module) -> list[list[Port]]:
    """What each dequeue gives."""
    dequeues = module.calls("ipufeed_dequeue")
    ports = []
    for n, each in enumerate(dequeues):
        feed = "the infeed" if len(dequeues) == 1 else f"infeed {n + 1}"
        parts = components(each)
        ports.append(
            [
                Port(
                    "feed",
                    feed if len(parts) == 1 else f"component {m} of {feed}",
                    shape,
                )
                for m, shape in enumerate(parts)
            ]
        )
    return ports


def components(dequeue: Instruction) -> list[Shape]:
    """The shapes of an element's components; the token that orders dequeues is none."""
    parts = dequeue.shape.parts or (dequeue.shape,)
    return list(parts[:-1]) if len(parts) > 1 else list(parts)


def explain_interface(
    before: tuple[Program, Module], after: tuple[Program, Module]
) -> tuple[list[Cause], list[tuple[Shape, Shape]]]:
    """What changed, and the shapes that did: others follow from them."""
    pairs, causes = pair_arguments(argument_ports(*before), argument_ports(*after))
    feeds, feed_causes = pair_feeds(feed_ports(before[1]), feed_ports(after[1]))
    causes += feed_causes
    changed = [(one, other) for one, other in pairs + feeds if one.shape != other.shape]
    causes = [*shape_causes(changed), *causes]
    results = len(before[1].results), len(after[1].results)
    if results[0] != results[1]:
        text = (
            f"the program gives {counted(results[1], 'result')}, before {results[0]:,}"
        )
        causes.append(Cause("results", text, "", "", *results))
    return causes, [(one.shape, other.shape) for one, other in changed]


def pair_arguments(
    before: list[Port], after: list[Port]
) -> tuple[list[tuple[Port, Port]], list[Cause]]:
    """By place if there are as many, else by name."""
    if len(before) == len(after):
        return list(zip(before, after, strict=True)), []
    left = list(before)
    pairs, causes = [], []
    for port in after:
        equal = [each for each in left if each.name == port.name]
        alike = [each for each in equal if each.shape == port.shape]
        same = next(iter(alike or equal), None)
        if same is None:
            text = f"{port.name} is new ({text_of(port.shape)})"
            causes.append(Cause("argument", text, "", port.name, None, str(port.shape)))
        else:
            left.remove(same)
            pairs.append((same, port))
    for port in left:
        text = f"{port.name} is gone ({text_of(port.shape)})"
        advice = ""
        if port.name.startswith("argument"):
            advice = "if its value is baked in now, pass it as an input again"
        causes.append(Cause("argument", text, advice, port.name, str(port.shape), None))
    return pairs, causes


def pair_feeds(
    before: list[list[Port]], after: list[list[Port]]
) -> tuple[list[tuple[Port, Port]], list[Cause]]:
    """Dequeue by dequeue."""
    pairs: list[tuple[Port, Port]] = []
    causes = []
    if len(before) != len(after):
        text = (
            f"the program dequeues in {counted(len(after), 'place')}, before in "
            f"{len(before):,}"
        )
        causes.append(Cause("feed", text, "", "", len(before), len(after)))
    for one, other in zip(before, after, strict=False):
        if len(one) != len(other):
            text = (
                f"elements of {other[0].name.split(' of ')[-1]} have {len(other)} "
                f"components, before {len(one)}"
            )
            causes.append(Cause("feed", text, "", "", len(one), len(other)))
        pairs += zip(one, other, strict=False)
    return pairs, causes


def text_of(shape: Shape) -> str:
    """An array's type in words: float32 [2,3]."""
    return f"{dtype_name(shape.dtype)} {brackets(shape)}"


def shape_causes(changed: list[tuple[Port, Port]]) -> list[Cause]:
    """A sentence for each; one for all that a batch size has changed."""
    batch = batch_size(changed)
    causes = []
    of_batch = [both for both in changed if batch and first_dims(both) == batch]
    if batch and of_batch:
        one, other = of_batch[0]
        text = (
            f"{one.name} changed shape {brackets(one.shape)} -> "
            f"{brackets(other.shape)} (batch size)"
        )
        rest = [each.name for each, _ in of_batch[1:]]
        if rest:
            text += f", and so did {enumeration(rest)}"
        causes.append(
            Cause(
                one.kind,
                text,
                KEEP_BATCH,
                one.name,
                list(one.shape.dims),
                list(other.shape.dims),
            )
        )
    for one, other in changed:
        if one.shape.dtype != other.shape.dtype:
            was, now = dtype_name(one.shape.dtype), dtype_name(other.shape.dtype)
            text = f"{one.name} changed dtype {was} -> {now}"
            advice = f"give it as {was} each time"
            causes.append(Cause(one.kind, text, advice, one.name, was, now))
        dims = one.shape.dims, other.shape.dims
        if dims[0] != dims[1] and (one, other) not in of_batch:
            text = (
                f"{one.name} changed shape {brackets(one.shape)} -> "
                f"{brackets(other.shape)}"
            )
            causes.append(
                Cause(one.kind, text, "", one.name, list(dims[0]), list(dims[1]))
            )
    return causes


def first_dims(both: tuple[Port, Port]) -> tuple[int, int] | None:
    """The first dimension before and after, if nothing else of the shape has changed."""
    one, other = both[0].shape.dims, both[1].shape.dims
    if not both[0].bears_batch or not one or len(one) != len(other):
        return None
    if one[0] == other[0] or one[1:] != other[1:]:
        return None
    return one[0], other[0]


def batch_size(changed: list[tuple[Port, Port]]) -> tuple[int, int] | None:
    """The batch size before and after, if that is what has changed.

    It is the first dimension of several, or of one that has more than it; and nowhere
    another than the first.
    """
    found = [dims for both in changed if (dims := first_dims(both))]
    if not found:
        return None
    best = max(found, key=found.count)
    deep = any(
        len(both[0].shape.dims) > 1 for both in changed if first_dims(both) == best
    )
    inner = {
        dims
        for one, other in changed
        for dims in zip(one.shape.dims[1:], other.shape.dims[1:], strict=False)
    }
    return best if (deep or found.count(best) > 1) and best not in inner else None
