"""Compares the interfaces of two programs: arguments and feeds, by name.

A changed batch size, the same first dimension in several of them, is reported once.
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
class _Port:
    """An argument, or a component of a feed's elements.

    Attributes:
        kind: "argument" or "feed".
        name: Name for sentences, such as "argument `x`".
        shape: Shape of the value.
        has_batch: Whether the first dimension may be the batch: not for a variable.
    """

    kind: str
    name: str
    shape: Shape
    has_batch: bool = True


def dtype_name(name: str) -> str:
    """Converts XLA's name of an element type to NumPy's and TensorFlow's."""
    letters = name.rstrip("0123456789")
    if letters in DTYPES:
        return DTYPES[letters] + name[len(letters) :]
    return name


def brackets(shape: Shape) -> str:
    """Formats dimensions as [32,28,28]."""
    return f"[{','.join(map(str, shape.dims))}]"


def _argument_ports(program: Program, module: Module) -> list[_Port]:
    return [
        _Port("argument", program.describe(n), shape, program.kind(n) != "variable")
        for n, shape in enumerate(module.parameters)
    ]


def _feed_ports(module: Module) -> list[list[_Port]]:
    """Returns the components of each dequeue's element."""
    dequeues = module.calls("ipufeed_dequeue")
    ports = []
    for n, each in enumerate(dequeues):
        feed = "the infeed" if len(dequeues) == 1 else f"infeed {n + 1}"
        parts = _components(each)
        ports.append(
            [
                _Port(
                    "feed",
                    feed if len(parts) == 1 else f"component {m} of {feed}",
                    shape,
                )
                for m, shape in enumerate(parts)
            ]
        )
    return ports


def _components(dequeue: Instruction) -> list[Shape]:
    """Returns the shapes of an element's components, without the ordering token."""
    parts = dequeue.shape.parts or (dequeue.shape,)
    return list(parts[:-1]) if len(parts) > 1 else list(parts)


def explain_interface(
    before: tuple[Program, Module], after: tuple[Program, Module]
) -> tuple[list[Cause], list[tuple[Shape, Shape]]]:
    """Returns the causes, and the changed shapes, from which others follow."""
    pairs, causes = _pair_arguments(_argument_ports(*before), _argument_ports(*after))
    feeds, feed_causes = _pair_feeds(_feed_ports(before[1]), _feed_ports(after[1]))
    causes += feed_causes
    changed = [(one, other) for one, other in pairs + feeds if one.shape != other.shape]
    causes = [*_shape_causes(changed), *causes]
    results = len(before[1].results), len(after[1].results)
    if results[0] != results[1]:
        text = (
            f"the program gives {counted(results[1], 'result')}, before {results[0]:,}"
        )
        causes.append(Cause("results", text, "", "", *results))
    return causes, [(one.shape, other.shape) for one, other in changed]


def _pair_arguments(
    before: list[_Port], after: list[_Port]
) -> tuple[list[tuple[_Port, _Port]], list[Cause]]:
    """Pairs arguments by position if their number is the same, else by name."""
    if len(before) == len(after):
        return list(zip(before, after, strict=True)), []
    left = list(before)
    pairs, causes = [], []
    for port in after:
        equal = [each for each in left if each.name == port.name]
        alike = [each for each in equal if each.shape == port.shape]
        same = next(iter(alike or equal), None)
        if same is None:
            text = f"{port.name} is new ({_text_of(port.shape)})"
            causes.append(Cause("argument", text, "", port.name, None, str(port.shape)))
        else:
            left.remove(same)
            pairs.append((same, port))
    for port in left:
        text = f"{port.name} is gone ({_text_of(port.shape)})"
        advice = ""
        if port.name.startswith("argument"):
            advice = "if its value is baked in now, pass it as an input again"
        causes.append(Cause("argument", text, advice, port.name, str(port.shape), None))
    return pairs, causes


def _pair_feeds(
    before: list[list[_Port]], after: list[list[_Port]]
) -> tuple[list[tuple[_Port, _Port]], list[Cause]]:
    """Pairs the components of the dequeues in order."""
    pairs: list[tuple[_Port, _Port]] = []
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


def _text_of(shape: Shape) -> str:
    """Formats an array's type as float32 [2,3]."""
    return f"{dtype_name(shape.dtype)} {brackets(shape)}"


def _shape_causes(changed: list[tuple[_Port, _Port]]) -> list[Cause]:
    """Returns a cause per changed port, but one for all whose batch size changed."""
    batch = _batch_size(changed)
    causes = []
    of_batch = [both for both in changed if batch and _first_dims(both) == batch]
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


def _first_dims(both: tuple[_Port, _Port]) -> tuple[int, int] | None:
    """Returns the first dimension before and after, if only it has changed."""
    one, other = both[0].shape.dims, both[1].shape.dims
    if not both[0].has_batch or not one or len(one) != len(other):
        return None
    if one[0] == other[0] or one[1:] != other[1:]:
        return None
    return one[0], other[0]


def _batch_size(changed: list[tuple[_Port, _Port]]) -> tuple[int, int] | None:
    """Returns the batch size before and after, if it has changed.

    It is the changed first dimension of several ports, or of one with more dimensions,
    and no other dimension changed in the same way.
    """
    found = [dims for both in changed if (dims := _first_dims(both))]
    if not found:
        return None
    best = max(found, key=found.count)
    deep = any(
        len(both[0].shape.dims) > 1 for both in changed if _first_dims(both) == best
    )
    inner = {
        dims
        for one, other in changed
        for dims in zip(one.shape.dims[1:], other.shape.dims[1:], strict=False)
    }
    return best if (deep or found.count(best) > 1) and best not in inner else None
