"""Compares the instructions of two programs: shapes, constants, types, operands, ops.

A change of a shape propagates through the program with the data. So instructions are
compared in the order in which they run. A change that an operand has, or that has the
sizes of a known change, is a consequence: it is counted, not listed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np

from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.explanation.fields import changed_fields
from ipufeed.executable.explanation.interface import brackets, dtype_name
from ipufeed.executable.explanation.known import Known
from ipufeed.executable.explanation.pairing import Pairing
from ipufeed.executable.explanation.structure import GLUE, explain_structure
from ipufeed.executable.explanation.values import Values
from ipufeed.executable.hlo.hlo import Array, Instruction, Module, Shape
from ipufeed.executable.program.program import Program
from ipufeed.render.terminal_text import enumeration, named
from ipufeed.render.units import counted

# Target of the call of a pipeline's stages on other IPUs: cc/xla/calls/names.h.
PIPELINE_CALL = "ipufeed_pipeline"
# Kinds of causes that a changed value of an argument that XLA must know can have.
FROM_VALUES = ("shape", "constant", "loop count", "attribute", "structure")
KNOWN_VALUE = (
    "XLA must know it to compile (the limit of tf.range, a bound of a slice, a shape, an "
    "axis). loops.repeat and tf.while_loop take a count as an input"
)


class Body:
    """The comparison of two programs' instructions.

    Args:
        program: The second program.
        modules: The modules of both programs.
        pairing: The pairs of their instructions.
        changed: Changed shapes of the interface, which are listed separately.
    """

    def __init__(
        self,
        program: Program,
        modules: tuple[Module, Module],
        pairing: Pairing,
        changed: list[tuple[Shape, Shape]],
    ) -> None:
        self.program = program
        self.modules = modules
        self.pairing = pairing
        self.known = Known()
        for one, other in changed:
            self.known.add(one, other)
        self.values = Values(modules[1])
        self.consequences = 0
        self.shapes: list[Cause] = []
        self.dtypes: list[Cause] = []
        self.operands: list[Cause] = []
        self.rewired: list[Cause] = []
        self.attributes: list[Cause] = []
        self.results_moved = False
        # Instructions of the second program whose shape has changed.
        self._changed: set[Instruction] = set()
        self._entry = set(modules[1].entry.instructions)
        self._partners = set(pairing.partner.values())

    def explain(self) -> list[Cause]:
        """Returns the causes, the most important first."""
        for one, other in self.pairing.pairs:
            if one.shape != other.shape and self._is_listed_elsewhere(one, other):
                # The shape follows from the fields; other shapes follow from it.
                self._compare_attributes(one, other)
                self._changed.add(other)
                self.known.add(one.shape, other.shape)
            elif one.shape != other.shape:
                self._compare_shape(one, other)
            elif one.opcode == "constant":
                self._compare_constant(one, other)
            else:
                self._compare_operands(one, other)
                self._compare_attributes(one, other)
        structure = self._explain_structure()
        if structure:
            # Ops in between change the operands and gradients of others.
            self.consequences += self.values.drop_gradients() + len(self.rewired)
            self.rewired.clear()
        constants, loops = self.values.causes()
        causes = [*self.shapes, *constants, *self.dtypes, *self.operands, *self.rewired]
        causes += [*structure, *loops, *self.attributes]
        if self.results_moved and not causes:
            text = "the program's results are other values, or in another order"
            causes.append(Cause("results", text))
        if self.consequences:
            number = counted(self.consequences, "instruction")
            verb = "follows" if self.consequences == 1 else "follow"
            text = f"{number} {verb} from that"
            causes.append(Cause("consequences", text, after=self.consequences))
        return self._with_baked(causes)

    def _with_baked(self, causes: list[Cause]) -> list[Cause]:
        """Names the baked arguments from which a changed value may come, as advice.

        They are already inputs of the function, so the usual advice would not help.
        """
        if not self.program.baked:
            return causes
        names = enumeration([named(name) for name in self.program.baked])
        advice = f"it may come from the value of {names}: {KNOWN_VALUE}"
        found = []
        for cause in causes:
            if cause.kind in FROM_VALUES:
                cause = dataclasses.replace(cause, advice=advice)
                advice = ""
            found.append(cause)
        return found

    def _is_listed_elsewhere(self, one: Instruction, other: Instruction) -> bool:
        """Whether a shape changed because other fields did, with the same operands."""
        return (
            other.parameter < 0
            and other.opcode not in ("constant", "custom-call")
            and bool(other.operands)
            and not any(each in self._changed for each in other.operands)
            and [self.pairing.partner.get(each) for each in one.operands]
            == other.operands
            and bool(changed_fields(one, other))
        )

    def _compare_shape(self, one: Instruction, other: Instruction) -> None:
        """Records a changed shape as a cause, or as a consequence of one."""
        # The program's parameters are listed separately; others follow from the caller.
        is_port = other.parameter >= 0 or other.target == "ipufeed_dequeue"
        follows = (
            is_port
            or other.op_name in ("XLA_Args", "XLA_Retvals")
            or other.shape.dtype == "tuple"
            or any(each in self._changed for each in other.operands)
            or any(each not in self._partners for each in other.operands)
        )
        self._changed.add(other)
        was, now = one.shape, other.shape
        if not is_port and was.dtype != now.dtype != "tuple" != was.dtype:
            inherited = any(
                (each.shape.dtype == now.dtype) and each in self._changed
                for each in other.operands
            )
            if not inherited and (was.dtype, now.dtype) not in self.known.dtypes:
                self._add_dtype(other, was.dtype, now.dtype)
                follows = True
        if was.dims != now.dims and not follows and not self.known.has_dims(was, now):
            name = named(op_of(other))
            text = f"{name} changed shape {brackets(was)} -> {brackets(now)}"
            advice = ""
            if other.opcode == "constant":
                text = (
                    f"a constant of shape {brackets(was)} -> {brackets(now)} is baked "
                    f"into {named(self.values.user_of(other))}"
                )
                advice = "pass it as an input of one shape"
            self.shapes.append(
                Cause(
                    "shape",
                    text,
                    advice,
                    op_of(other),
                    list(was.dims),
                    list(now.dims),
                    other.source,
                )
            )
        else:
            self.consequences += 1
        self.known.add(was, now)

    def _add_dtype(self, instruction: Instruction, was: str, now: str) -> None:
        """Records a changed element type that no operand has."""
        op = op_of(instruction)
        if instruction.opcode == "constant":
            op = self.values.user_of(instruction)
        text = f"{named(op)} changed dtype {dtype_name(was)} -> {dtype_name(now)}"
        self.dtypes.append(
            Cause(
                "dtype",
                text,
                "",
                op,
                dtype_name(was),
                dtype_name(now),
                instruction.source,
            )
        )

    def _compare_constant(self, one: Instruction, other: Instruction) -> None:
        """Records a changed value, unless it is the size of a changed shape."""
        if one.proto.literal == other.proto.literal:
            return
        was, now = one.constant, other.constant
        if was is None or now is None:
            self.values.add_unknown(other)
        elif self._is_size(was, now):
            self.consequences += 1
        else:
            self.values.add(other, was, now)

    def _is_size(self, was: Array, now: Array) -> bool:
        """Whether a constant is a changed dimension or size, or the inverse of one."""
        if not self.known.dims or was.dtype.kind not in "iuf" or was.size > 16:
            return False
        for one, other in zip(was.ravel(), now.ravel(), strict=True):
            values = float(one), float(other)
            if one == other or self.known.has_size(*values):
                continue
            if 0.0 in values or not np.isfinite(values).all():
                return False
            inverse = 1.0 / values[0], 1.0 / values[1]
            whole = float(round(inverse[0])), float(round(inverse[1]))
            close = np.allclose(inverse, whole, rtol=1e-5, atol=0)
            if was.dtype.kind != "f" or not close or not self.known.has_size(*whole):
                return False
        return True

    def _compare_operands(self, one: Instruction, other: Instruction) -> None:
        """Records operands that were reordered or replaced."""
        expected = [self.pairing.partner.get(each) for each in one.operands]
        if None in expected or expected == other.operands:
            return
        if any(each not in self._partners for each in other.operands):
            return  # a new op is in between, for which there is a structural cause
        name = op_of(other) or other.opcode
        if Counter(expected) == Counter(other.operands):
            pair = "swapped" if len(expected) == 2 else "in another order"
            text = f"operands of {named(name)} are {pair}"
            found = self.operands
        else:
            text = f"{named(name)} takes other operands: " + self._replaced_operands(
                expected, other
            )
            found = self.rewired
        if other.op_type in GLUE:
            self.results_moved = True
        elif not any(each.name == name for each in (*self.operands, *self.rewired)):
            found.append(Cause("operands", text, "", name, source=other.source))

    def _replaced_operands(
        self, expected: list[Instruction | None], other: Instruction
    ) -> str:
        """Names the new and the old operands."""
        parts = []
        for was, now in zip(expected, other.operands, strict=False):
            if was is not now and was is not None:
                parts.append(
                    f"{self._value_name(now)} in place of {self._value_name(was)}"
                )
        return enumeration(parts)

    def _value_name(self, instruction: Instruction) -> str:
        """Returns a name for an operand."""
        seen = instruction
        while seen.opcode in ("reshape", "copy", "transpose", "broadcast", "convert"):
            if seen.op_type and seen.op_type not in ("XLA_Args", "XLA_Retvals"):
                break
            seen = seen.operands[0]
        if seen.parameter >= 0 and seen in self._entry:
            return self.program.describe(seen.parameter)
        if seen.opcode == "get-tuple-element":
            return f"value {seen.proto.tuple_index} of the loop"
        return named(op_of(seen) or seen.opcode)

    def _compare_attributes(self, one: Instruction, other: Instruction) -> None:
        """Records changed attributes: strides, directions, dimensions."""
        fields = changed_fields(one, other)
        if not fields:
            return
        if any(each in self._changed for each in other.operands):
            self.consequences += 1
            return
        name = op_of(other) or other.opcode
        text = f"{named(name)} changed its {enumeration(fields)}"
        if other.target == PIPELINE_CALL:
            # The field has keys and counts of the IPUs' programs, which explain nothing.
            text = (
                f"the programs of the stages of {named(name)} have changed: each IPU's "
                "program has its own causes"
            )
        self.attributes.append(
            Cause("attribute", text, "", name, None, None, other.source)
        )

    def _explain_structure(self) -> list[Cause]:
        """Returns causes for added and removed ops, and counts consequences."""
        causes, consequences = explain_structure(
            self.pairing,
            explained=bool(self.known.dims or self.known.dtypes)
            or len(self.modules[0].parameters) != len(self.modules[1].parameters),
        )
        self.consequences += consequences
        return causes


def op_of(instruction: Instruction) -> str:
    """Returns the TensorFlow op of an instruction, or XLA's name."""
    return instruction.op_name or str(instruction.proto.name).split(".")[0]
