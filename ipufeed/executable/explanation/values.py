"""Constants with other values: what they are for, and what to do.

a scalar                    pass it as an input
an array of weights         keep it as a variable
the limit of a loop         give it as a tensor
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.hlo.hlo import Computation, Instruction, Module
from ipufeed.render.terminal_text import enumeration, named
from ipufeed.render.units import counted

PASS_IT = "pass it as an input"
KEEP_WEIGHTS = "keep them as variables or inputs"
COUNT_AS_TENSOR = "give the count as a tensor argument"
# What a value goes through on its way to the op that wants it.
THROUGH = ("broadcast", "convert", "copy", "reshape", "transpose")
MULTIPLIES = ("convolution", "dot")
# Scopes of the ops that differentiation makes.
GRADIENTS = ("gradient_tape/", "gradients/")
# Fewer values than that are parameters of the program rather than weights, unless they
# are multiplied as a matrix.
MANY = 64


class Values:
    """The constants of a program whose values are others than before.

    Args:
        module: The program after.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[Instruction, list[Instruction]] = defaultdict(list)
        self._conditions: set[int] = set()
        for instruction in module.instructions():
            for operand in instruction.operands:
                self._users[operand].append(instruction)
            if instruction.opcode == "while":
                for each in called_from(instruction.called[1:]):
                    self._conditions.add(each.id)
        self._in_conditions = {
            instruction
            for computation in module.computations
            if computation.id in self._conditions
            for instruction in computation.instructions
        }
        self._changed: list[
            tuple[Instruction, np.ndarray[Any, Any], np.ndarray[Any, Any]]
        ] = []
        self._unknown: list[Instruction] = []

    def add(
        self,
        constant: Instruction,
        was: np.ndarray[Any, Any],
        now: np.ndarray[Any, Any],
    ) -> None:
        """A constant has another value."""
        self._changed.append((constant, was, now))

    def add_unknown(self, constant: Instruction) -> None:
        """A constant has another value, of a type that NumPy does not have."""
        self._unknown.append(constant)

    def drop_gradients(self) -> int:
        """Forgets constants of gradients, if ops changed: they follow from these.

        Returns:
            How many.
        """
        kept = [
            each for each in self._changed if not is_of_gradient(self.user_of(each[0]))
        ]
        dropped = len(self._changed) - len(kept)
        self._changed = kept
        return dropped

    def causes(self) -> tuple[list[Cause], list[Cause]]:
        """Sentences on constants; and on limits of loops."""
        weights = [each for each in self._changed if self.is_weight(each[0])]
        if weights:  # with matrices go their vectors
            weights = [
                each for each in self._changed if each[1].ndim and is_float(each[1])
            ]
        grouped = {id(each) for each in weights}
        scalars, loops = [], []
        for each in self._changed:
            if id(each) in grouped:
                continue
            if self.limits_loop(each[0]):
                loops.append(self.loop_cause(*each))
            else:
                scalars.append(self.value_cause(*each))
        for constant in self._unknown:
            op = self.user_of(constant)
            text = f"a constant of {constant.shape} baked into {named(op)} changed"
            scalars.append(Cause("constant", text, PASS_IT, op, source=constant.source))
        first = [self.weights_cause(weights)] if weights else []
        return [*first, *merged(scalars)], loops

    def user_of(self, constant: Instruction) -> str:
        """The name of the op that a constant is baked into."""
        if constant.op_type not in ("", "Const") and constant.op_name:
            return constant.op_name
        seen = constant
        while True:
            users = self._users.get(seen, [])
            if not users:
                break
            seen = users[0]
            if seen.op_name and seen.op_type not in ("", "Const", "XLA_Retvals"):
                return seen.op_name
            if seen.opcode == "tuple":
                break
        return constant.op_name or "the program's result"

    def is_weight(self, constant: Instruction) -> bool:
        """Whether it is multiplied as a matrix or filter, or one of very many values."""
        shape = constant.shape
        if not shape.dims or not is_float_name(shape.dtype):
            return False
        users = list(self.consumers(constant))
        if len(shape.dims) > 1 and any(each.opcode in MULTIPLIES for each in users):
            return True
        return shape.elements >= MANY

    def consumers(self, instruction: Instruction) -> Iterator[Instruction]:
        """What takes a value, reshaped or converted or not."""
        for user in self._users.get(instruction, []):
            if user.opcode in THROUGH:
                yield from self.consumers(user)
            else:
                yield user

    def limits_loop(self, constant: Instruction) -> bool:
        """Whether a loop's condition compares with it."""
        if constant.shape.elements != 1:
            return False
        for user in self.consumers(constant):
            if user.opcode == "compare" and user in self._in_conditions:
                return True
            if user.opcode == "tuple":
                places = {
                    n
                    for n, each in enumerate(user.operands)
                    if self.comes_from(each, constant)
                }
                for loop in self._users.get(user, []):
                    if loop.opcode == "while" and any(
                        self.is_compared(loop.called[1], place) for place in places
                    ):
                        return True
        return False

    def comes_from(self, value: Instruction, constant: Instruction) -> bool:
        """Whether a value is a constant, reshaped or not."""
        while value is not constant and value.opcode in THROUGH:
            value = value.operands[0]
        return value is constant

    def is_compared(self, condition: Computation, place: int) -> bool:
        """Whether a condition compares a number of the loop's state.

        The counter is compared, too, and begins with a constant: it is the smaller one,
        which a body counts up; so only the second operand counts.
        """
        for instruction in condition.instructions:
            if instruction.opcode == "compare":
                limit = instruction.operands[1]
                while limit.opcode in THROUGH:
                    limit = limit.operands[0]
                if (
                    limit.opcode == "get-tuple-element"
                    and limit.proto.tuple_index == place
                ):
                    return True
        return any(
            self.is_compared(each, place)
            for instruction in condition.instructions
            if instruction.opcode == "call"
            for each in instruction.called
        )

    def loop_cause(
        self,
        constant: Instruction,
        was: np.ndarray[Any, Any],
        now: np.ndarray[Any, Any],
    ) -> Cause:
        """A loop runs another number of times."""
        one, other = was.ravel()[0].item(), now.ravel()[0].item()
        op = self.user_of(constant)
        text = f"the limit of a loop, {one} -> {other}, is baked into {named(op)}"
        return Cause(
            "loop count", text, COUNT_AS_TENSOR, op, one, other, constant.source
        )

    def value_cause(
        self,
        constant: Instruction,
        was: np.ndarray[Any, Any],
        now: np.ndarray[Any, Any],
    ) -> Cause:
        """Another scalar, or a small array."""
        op = self.user_of(constant)
        if was.size == 1:
            one, other = was.ravel()[0], now.ravel()[0]
            # str(), as a format would write a float32 as a double.
            text = f"constant {one!s} -> {other!s} baked into {named(op)}"
            values = plain(one), plain(other)
        else:
            text = f"constant baked into {named(op)}: {difference(was, now)}"
            values = (None, None)
        return Cause("constant", text, PASS_IT, op, *values, constant.source)

    def weights_cause(
        self,
        changed: list[tuple[Instruction, np.ndarray[Any, Any], np.ndarray[Any, Any]]],
    ) -> Cause:
        """Frozen weights: one sentence for all."""
        values = sum(was.size for _, was, _ in changed)
        constant, was, now = max(changed, key=lambda each: each[1].size)
        op = self.user_of(constant)
        text = (
            f"weights are constants: {counted(len(changed), 'array')} of "
            f"{counted(values, 'value')} changed, the largest baked into {named(op)}: "
            f"{difference(was, now)}"
        )
        return Cause("weights", text, KEEP_WEIGHTS, op, source=constant.source)


def called_from(computations: list[Computation]) -> Iterator[Computation]:
    """These, and what they call."""
    for computation in computations:
        yield computation
        for instruction in computation.instructions:
            yield from called_from(instruction.called)


def is_float_name(dtype: str) -> bool:
    """Whether an element type of XLA's is one of weights."""
    return dtype.startswith(("f", "bf", "c"))


def is_float(array: np.ndarray[Any, Any]) -> bool:
    """The same of NumPy's."""
    return array.dtype.kind in "fc"


def difference(was: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> str:
    """How many values of an array differ, and the first that does."""
    with np.errstate(invalid="ignore"):
        differs = (was != now) & ~((was != was) & (now != now))
    if not differs.any():  # 0.0 and -0.0, or NaNs of other bits
        differs = np.array(
            [
                one.tobytes() != other.tobytes()
                for one, other in zip(was.ravel(), now.ravel(), strict=True)
            ]
        ).reshape(was.shape)
    first = np.unravel_index(int(np.argmax(differs)), was.shape)
    place = ",".join(str(int(each)) for each in first)
    dims = ",".join(map(str, was.shape))
    return (
        f"{int(differs.sum()):,} of {was.size:,} values of [{dims}] differ, first "
        f"[{place}]: {was[first]!s} -> {now[first]!s}"
    )


def plain(value: Any) -> Any:
    """A number for JSON: a complex one, NaN and infinity as text."""
    number = value.item()
    if isinstance(number, complex):
        return str(number)
    if isinstance(number, float):
        # The shortest text of a float32, not that of the double nearest to it.
        return float(str(value)) if np.isfinite(number) else str(number)
    return number


def is_of_gradient(op: str) -> bool:
    """Whether an op was made by differentiation, of ops that the author wrote."""
    return op.startswith(GRADIENTS) or "/gradients/" in op


def merged(causes: list[Cause]) -> list[Cause]:
    """The same change of a scalar that is baked into several ops is listed once."""
    groups: dict[Any, list[Cause]] = {}
    for cause in causes:
        alone = cause.before is None
        change = str(cause) if alone else (repr(cause.before), repr(cause.after))
        groups.setdefault(change, []).append(cause)
    found = []
    for group in groups.values():
        # What was written comes before what was derived from it.
        names = list(dict.fromkeys(each.name for each in group))
        names.sort(key=lambda name: (is_of_gradient(name), len(name), name))
        first = next(each for each in group if each.name == names[0])
        if len(names) > 1:
            text = first.text.replace(
                named(first.name), enumeration([named(name) for name in names])
            )
            first = dataclasses.replace(first, text=text)
        found.append(first)
    return found
