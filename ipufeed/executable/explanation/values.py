"""Explains constants with changed values, with advice.

a scalar                    pass it as an input
an array of weights         keep it as a variable
the limit of a loop         give it as a tensor
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Iterator

import numpy as np

from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.hlo.hlo import Array, Computation, Instruction, Module
from ipufeed.render.terminal_text import enumeration, named
from ipufeed.render.units import counted

PASS_IT = "pass it as an input"
KEEP_WEIGHTS = "keep them as variables or inputs"
COUNT_AS_TENSOR = "give the count as a tensor argument"
# Opcodes between a value and the op that uses it.
THROUGH = ("broadcast", "convert", "copy", "reshape", "transpose")
MULTIPLIES = ("convolution", "dot")
# Scopes of ops made by differentiation.
GRADIENTS = ("gradient_tape/", "gradients/")
# Arrays of fewer values are not weights, unless they are multiplied as a matrix.
MIN_WEIGHTS = 64


Change = tuple[Instruction, Array, Array]  # a constant, its value before and after


class Values:
    """The constants of a program whose values have changed.

    Args:
        module: The second program.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[Instruction, list[Instruction]] = defaultdict(list)
        self._conditions: set[int] = set()
        for instruction in module.instructions():
            for operand in instruction.operands:
                self._users[operand].append(instruction)
            if instruction.opcode == "while":
                for each in _called_from(instruction.called[1:]):
                    self._conditions.add(each.id)
        self._in_conditions = {
            instruction
            for computation in module.computations
            if computation.id in self._conditions
            for instruction in computation.instructions
        }
        self._changed: list[Change] = []
        self._unknown: list[Instruction] = []

    def add(self, constant: Instruction, was: Array, now: Array) -> None:
        """Records a constant with another value."""
        self._changed.append((constant, was, now))

    def add_unknown(self, constant: Instruction) -> None:
        """Records a constant with another value, of a type that NumPy lacks."""
        self._unknown.append(constant)

    def drop_gradients(self) -> int:
        """Drops constants of gradients, which follow from changed ops.

        Returns:
            The number of dropped constants.
        """
        kept = [
            each for each in self._changed if not is_of_gradient(self.user_of(each[0]))
        ]
        dropped = len(self._changed) - len(kept)
        self._changed = kept
        return dropped

    def causes(self) -> tuple[list[Cause], list[Cause]]:
        """Returns causes for constants, and for limits of loops."""
        weights = [each for each in self._changed if self._is_weight(each[0])]
        if weights:  # then other float arrays are weights, too, such as biases
            weights = [
                each for each in self._changed if each[1].ndim and _is_float(each[1])
            ]
        grouped = {id(each) for each in weights}
        scalars, loops = [], []
        for each in self._changed:
            if id(each) in grouped:
                continue
            if self._limits_loop(each[0]):
                loops.append(self._loop_cause(*each))
            else:
                scalars.append(self._value_cause(*each))
        for constant in self._unknown:
            op = self.user_of(constant)
            text = f"a constant of {constant.shape} baked into {named(op)} changed"
            scalars.append(Cause("constant", text, PASS_IT, op, source=constant.source))
        first = [self._weights_cause(weights)] if weights else []
        return [*first, *_merged(scalars)], loops

    def user_of(self, constant: Instruction) -> str:
        """Returns the name of the op that a constant is baked into."""
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

    def _is_weight(self, constant: Instruction) -> bool:
        """Whether a constant is a matrix or filter that is multiplied, or a large array."""
        shape = constant.shape
        if not shape.dims or not _is_float_name(shape.dtype):
            return False
        users = list(self._consumers(constant))
        if len(shape.dims) > 1 and any(each.opcode in MULTIPLIES for each in users):
            return True
        return shape.elements >= MIN_WEIGHTS

    def _consumers(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yields the users of a value, also after reshapes and conversions."""
        for user in self._users.get(instruction, []):
            if user.opcode in THROUGH:
                yield from self._consumers(user)
            else:
                yield user

    def _limits_loop(self, constant: Instruction) -> bool:
        """Whether a loop's condition compares with a constant."""
        if constant.shape.elements != 1:
            return False
        for user in self._consumers(constant):
            if user.opcode == "compare" and user in self._in_conditions:
                return True
            if user.opcode == "tuple":
                places = {
                    n
                    for n, each in enumerate(user.operands)
                    if self._comes_from(each, constant)
                }
                for loop in self._users.get(user, []):
                    if loop.opcode == "while" and any(
                        self._is_compared(loop.called[1], place) for place in places
                    ):
                        return True
        return False

    def _comes_from(self, value: Instruction, constant: Instruction) -> bool:
        """Whether a value is a constant, possibly reshaped."""
        while value is not constant and value.opcode in THROUGH:
            value = value.operands[0]
        return value is constant

    def _is_compared(self, condition: Computation, place: int) -> bool:
        """Whether a condition compares with a number of the loop's state.

        Only the second operand of a comparison is a limit: the first is the counter,
        which begins with a constant, too.
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
            self._is_compared(each, place)
            for instruction in condition.instructions
            if instruction.opcode == "call"
            for each in instruction.called
        )

    def _loop_cause(self, constant: Instruction, was: Array, now: Array) -> Cause:
        """Returns the cause for a changed number of iterations."""
        one, other = was.ravel()[0].item(), now.ravel()[0].item()
        op = self.user_of(constant)
        text = f"the limit of a loop, {one} -> {other}, is baked into {named(op)}"
        return Cause(
            "loop count", text, COUNT_AS_TENSOR, op, one, other, constant.source
        )

    def _value_cause(self, constant: Instruction, was: Array, now: Array) -> Cause:
        """Returns the cause for a scalar or a small array."""
        op = self.user_of(constant)
        if was.size == 1:
            one, other = was.ravel()[0], now.ravel()[0]
            # str(): a format would print a float32 with the digits of a double.
            text = f"constant {one!s} -> {other!s} baked into {named(op)}"
            values = _plain(one), _plain(other)
        else:
            text = f"constant baked into {named(op)}: {_difference(was, now)}"
            values = (None, None)
        return Cause("constant", text, PASS_IT, op, *values, constant.source)

    def _weights_cause(self, changed: list[Change]) -> Cause:
        """Returns one cause for all frozen weights."""
        values = sum(was.size for _, was, _ in changed)
        constant, was, now = max(changed, key=lambda each: each[1].size)
        op = self.user_of(constant)
        text = (
            f"weights are constants: {counted(len(changed), 'array')} of "
            f"{counted(values, 'value')} changed, the largest baked into {named(op)}: "
            f"{_difference(was, now)}"
        )
        return Cause("weights", text, KEEP_WEIGHTS, op, source=constant.source)


def _called_from(computations: list[Computation]) -> Iterator[Computation]:
    """Yields computations and those that they call."""
    for computation in computations:
        yield computation
        for instruction in computation.instructions:
            yield from _called_from(instruction.called)


def _is_float_name(dtype: str) -> bool:
    """Whether an element type of XLA is floating or complex."""
    return dtype.startswith(("f", "bf", "c"))


def _is_float(array: Array) -> bool:
    """Whether an array's dtype is floating or complex."""
    return array.dtype.kind in "fc"


def _difference(was: Array, now: Array) -> str:
    """Returns the number of changed values of an array, and the first of them."""
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


def _plain(value: np.generic) -> object:
    """Returns a number for JSON; a complex one, NaN and infinity as text."""
    number = value.item()
    if isinstance(number, complex):
        return str(number)
    if isinstance(number, float):
        # Through the shortest text of a float32, whose double has more digits.
        return float(str(value)) if np.isfinite(number) else str(number)
    return number


def is_of_gradient(op: str) -> bool:
    """Whether an op was made by differentiation."""
    return op.startswith(GRADIENTS) or "/gradients/" in op


def _merged(causes: list[Cause]) -> list[Cause]:
    """Merges equal changes of a scalar that is baked into several ops."""
    groups: dict[Hashable, list[Cause]] = {}
    for cause in causes:
        alone = cause.before is None
        change = str(cause) if alone else (repr(cause.before), repr(cause.after))
        groups.setdefault(change, []).append(cause)
    found = []
    for group in groups.values():
        # Ops that the author wrote come before those derived from them.
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
