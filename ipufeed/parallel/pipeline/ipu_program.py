"""The program of one IPU: a loop whose iterations run each of its stages once.

    for i in range(count + lag):
        for each position of the IPU, in the schedule's order:
            mini_batch = i - its lag;  if 0 <= mini_batch < count:
                receive tensors from other IPUs, read kept tensors of this one
                begins: the inputs are there
                compute
                ends: the outputs are made
                send, keep, accumulate

An IPU whose positions have one lag, such as with one stage, needs no conditions: its
program is the stage in a loop. A kept tensor has a slot for each mini-batch in flight, and
one more that is written while the position has no mini-batch, so that XLA updates slots in
place.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops as xla

from ipufeed import _native
from ipufeed.parallel.pipeline.copying import Copier
from ipufeed.parallel.pipeline.partition import Part
from ipufeed.parallel.pipeline.plan import Plan, Ring
from ipufeed.parallel.pipeline.schedules import Position
from ipufeed.parallel.pipeline.traced import (
    TOKEN_INPUTS,
    can_cross,
    data_inputs,
    has_effect,
    in_order,
    is_known,
)
from ipufeed.tf_types import Operation, Tensor

# The name of the ops that use the count: the causes of a recompilation show it.
COUNT_NAME = "gradient_accumulation_count"


@dataclass
class Kept:
    """A tensor that is kept on its IPU for a later iteration, in slots.

    Attributes:
        source: The position that writes it.
        target: The position that reads it.
        tensor: The sent tensor of the traced graph.
        slots: Mini-batches in flight.
    """

    source: Position
    target: Position
    tensor: Tensor
    slots: int


class IPUProgram:
    """Builds the program of one IPU in the current graph.

    Args:
        plan: The pipeline.
        ipu: Its number.
    """

    def __init__(self, plan: Plan, ipu: int) -> None:
        self.plan = plan
        self.parts = plan.parts_of(ipu)
        own = {part.position for part in self.parts}
        self.lags = {position: plan.schedule.lag(position) for position in own}
        first = min(self.lags.values())
        self.lags = {position: lag - first for position, lag in self.lags.items()}
        self.last_lag = max(self.lags.values())
        self.always = self.last_lag == 0
        self.kept = [
            Kept(
                source,
                part.position,
                tensor,
                1 + plan.iterations_between(source, part.position),
            )
            for part in self.parts
            for source, tensors in part.incoming.items()
            if source in own and plan.iterations_between(source, part.position) > 0
            for tensor in tensors
        ]
        self.results = [number for part in self.parts for number in part.results]

    def build(self) -> list[Tensor]:
        """Builds the loop; returns its last token, then the sums in the order of `results`.

        The token is available once the loop has run.
        """
        traced = self.plan.traced
        sums = []
        for number in self.results:
            tensor = traced.results[number]
            dtype = self.plan.accumulations[number].dtype
            sums.append(tf.zeros(tensor.shape, dtype))
        slots = [
            tf.zeros([each.slots + 1, *each.tensor.shape.as_list()], each.tensor.dtype)
            for each in self.kept
        ]

        iterations = self.plan.count + self.last_lag

        def body(iteration: Tensor, token: Tensor, *carried: Tensor) -> list[Tensor]:
            building = _Iteration(self, iteration, token, list(carried))
            for part in self.parts:
                building.take(part)
            return [iteration + 1, building.token, *building.sums, *building.slots]

        results = tf.while_loop(
            lambda iteration, *_: tf.less(iteration, iterations, COUNT_NAME),
            body,
            [tf.constant(0), tf.constant(0, tf.uint32), *sums, *slots],
            parallel_iterations=1,
        )
        return list(results[1 : 2 + len(sums)])

    def iterations_of_a_stage(self) -> str:
        """Returns a stage's name scope: its iterations, for executable/report/cost.py."""
        count = self.plan.count
        if not isinstance(count, int):
            return "some_iterations"
        return f"{count}_of_{count + self.last_lag}_iterations"


class _Iteration:
    """Builds one iteration of the loop."""

    def __init__(
        self,
        program: IPUProgram,
        iteration: Tensor,
        token: Tensor,
        carried: list[Tensor],
    ) -> None:
        self.program = program
        self.iteration = iteration
        self.token = token
        split = len(program.results)
        self.sums, self.slots = carried[:split], carried[split:]
        # Outputs of this iteration that other positions of the IPU read in it.
        self.direct: dict[tuple[Position, int], Tensor] = {}

    def take(self, part: Part) -> None:
        """Builds a position's part of the iteration."""
        program, position = self.program, part.position
        mini_batch = self.iteration - program.lags[position]
        in_time = tf.less(mini_batch, program.plan.count, COUNT_NAME)
        active = tf.logical_and(mini_batch >= 0, in_time)
        known = self.local_inputs(part, mini_batch)
        exports = self.exports(position)
        wanted = [*exports, *(program.plan.traced.results[n] for n in part.results)]

        def compute() -> list[Tensor]:
            copy = _Copy(program.plan, part, self.token, mini_batch, dict(known))
            return copy.run(wanted)

        def rest() -> list[Tensor]:
            return [
                tf.identity(self.token),
                *(tf.zeros(each.shape, each.dtype) for each in wanted),
            ]

        if program.always:
            values = compute()
        else:
            with tf.name_scope(program.iterations_of_a_stage()):
                values = tf.cond(active, compute, rest)
        values = tf.nest.flatten(values)  # tf.cond unpacks a list of one
        self.token = values[0]
        given = dict(zip(map(id, exports), values[1:], strict=False))
        for tensor in exports:
            self.direct[position, id(tensor)] = given[id(tensor)]
        self.keep(position, mini_batch, active, given)
        sums = values[1 + len(exports) :]
        for number, value in zip(part.results, sums, strict=True):
            self.accumulate(number, value, mini_batch, active)

    def exports(self, position: Position) -> list[Tensor]:
        """Returns the tensors of a position that other positions of the IPU need."""
        found: dict[int, Tensor] = {}
        for part in self.program.parts:
            for tensor in part.incoming.get(position, []):
                found[id(tensor)] = tensor
        return list(found.values())

    def local_inputs(self, part: Part, mini_batch: Tensor) -> dict[int, Tensor]:
        """Returns the inputs from positions of the same IPU, by the traced tensor's id."""
        found: dict[int, Tensor] = {}
        for place, kept in enumerate(self.program.kept):
            if kept.target != part.position:
                continue
            start = at(mini_batch % kept.slots, kept.tensor)
            size = tf.constant([1, *kept.tensor.shape.as_list()], tf.int32)
            row = xla.xla_dynamic_slice(self.slots[place], start, size)
            found[id(kept.tensor)] = tf.reshape(row, kept.tensor.shape)
        for source, tensors in part.incoming.items():
            for tensor in tensors:
                value = self.direct.get((source, id(tensor)))
                if value is not None and id(tensor) not in found:
                    found[id(tensor)] = value
        return found

    def keep(
        self,
        position: Position,
        mini_batch: Tensor,
        active: Tensor,
        given: dict[int, Tensor],
    ) -> None:
        """Writes the tensors that later iterations need into their slots."""
        for place, kept in enumerate(self.program.kept):
            if kept.source != position:
                continue
            slot = mini_batch % kept.slots
            if not self.program.always:
                slot = tf.where(active, slot, kept.slots)
            row = tf.expand_dims(given[id(kept.tensor)], 0)
            self.slots[place] = xla.xla_dynamic_update_slice(
                self.slots[place], row, at(slot, kept.tensor)
            )

    def accumulate(
        self, number: int, value: Tensor, mini_batch: Tensor, active: Tensor
    ) -> None:
        """Accumulates a value, unless the position has no mini-batch (it is zeros then)."""
        place = self.program.results.index(number)
        how = self.program.plan.accumulations[number]
        before = self.sums[place]
        after = how.update(before, tf.cast(value, how.dtype), mini_batch)
        if not self.program.always:
            after = tf.where(active, after, before)
        self.sums[place] = after


class _Copy(Copier):
    """Copies the ops of a position into the current graph."""

    def __init__(
        self,
        plan: Plan,
        part: Part,
        token: Tensor,
        mini_batch: Tensor,
        known: dict[int, Tensor],
    ) -> None:
        super().__init__(plan.traced.graph, known, token)
        self.plan = plan
        self.part = part
        self.mini_batch = mini_batch
        # Ids of tensors that depend on the inputs.
        self.inside: set[int] = set()
        self.begun = False

    def run(self, wanted: list[Tensor]) -> list[Tensor]:
        """Receives, computes and sends; returns the token and the wanted tensors.

        The marks of begin and end are data dependencies, not only ordered by the token:
        XLA may schedule an op anywhere once its operands are available.
        """
        ops, position = _native.load(), self.part.position
        self.token = ops.ipufeed_stage_enters(
            self.mini_batch, self.token, label=position.label
        )
        inputs = [*self.values]
        for ring in self.plan.rings:
            if ring.target == position:
                inputs += self.receive(ring)
        inputs += self.dequeue()
        values = [self.values[each] for each in inputs]
        same, started, self.token = ops.ipufeed_stage_begins(values, self.token)
        self.values.update(zip(inputs, same, strict=True))
        self.begun, self.inside = True, {id(each) for each in same}
        enqueues = _last_enqueues(self.part.ops)
        for op in self.part.ops:
            if op not in enqueues:
                self.copy(op)
        results = [self.value(tensor) for tensor in wanted]
        outgoing = [ring for ring in self.plan.rings if ring.source == position]
        sent = [[self.value(tensor) for tensor in ring.tensors] for ring in outgoing]
        self.token = ops.ipufeed_stage_ends(
            self.mini_batch,
            started,
            [
                *results,
                *(each for one in sent for each in one),
                *self.effects(enqueues),
            ],
            self.token,
            label=position.label,
        )
        for op in enqueues:
            self.copy(op)
        for ring, tensors in zip(outgoing, sent, strict=True):
            self.token = ops.ipufeed_send(tensors, self.token, ring=ring.number)
        return [self.token, *results]

    def make(self, op: Operation, inputs: list[Tensor]) -> Operation:
        """Copies an op; one with a side effect stays between the marks.

        Also if it takes none of the inputs, as the gradient of a last stage's wait.
        """
        if self.begun and not any(id(each) in self.inside for each in inputs):
            if not has_effect(op) or op.type in TOKEN_INPUTS:
                return super().make(op, inputs)
            # XLA needs the shapes and algorithms of TensorFlow's ops when it compiles.
            constants = not op.type.startswith("Ipufeed")
            own = [
                place
                for place, each in enumerate(inputs)
                if can_cross(each) and not (constants and is_known(each))
            ]
            if own:
                same, _, self.token = _native.load().ipufeed_stage_begins(
                    [inputs[place] for place in own], self.token
                )
                for place, value in zip(own, same, strict=True):
                    inputs[place] = value
        made = super().make(op, inputs)
        if self.begun:
            self.inside |= {id(each) for each in made.outputs}
        return made

    def receive(self, ring: Ring) -> list[int]:
        """Receives the tensors of a ring; returns their ids."""
        tensors, self.token = _native.load().ipufeed_receive(
            self.token,
            dtypes=[each.dtype for each in ring.tensors],
            shapes=[each.shape for each in ring.tensors],
            ring=ring.number,
        )
        for tensor, value in zip(ring.tensors, tensors, strict=True):
            self.values[id(tensor)] = value
        return [id(tensor) for tensor in ring.tensors]

    def dequeue(self) -> list[int]:
        """Dequeues from the infeed if the position does so; returns the tensors' ids."""
        own = [op for op in self.part.ops if op.type == "IpufeedDequeue"]
        for op in in_order(own, lambda op: [each.op for each in data_inputs(op)]):
            self.copy(op)
        return [id(tensor) for op in own for tensor in op.outputs[:-1]]

    def effects(self, enqueues: list[Operation]) -> list[Tensor]:
        """Returns the tensors other than results that the end mark must wait for.

        Enqueued and assigned tensors, and outputs of ops with side effects; chained calls
        are ordered by the token.
        """
        found: dict[int, Tensor] = {}
        for op in self.part.ops:
            if op not in enqueues and (op.type in TOKEN_INPUTS or not has_effect(op)):
                continue
            takes = op in enqueues or not op.outputs
            for tensor in data_inputs(op) if takes else op.outputs:
                if can_cross(tensor):
                    found[id(tensor)] = tensor
        return [self.value(each) for each in found.values()]


def _last_enqueues(ops: list[Operation]) -> list[Operation]:
    """Returns the enqueues of a position that no other chained op follows."""
    found: list[Operation] = []
    for op in reversed([each for each in ops if each.type in TOKEN_INPUTS]):
        if op.type != "IpufeedEnqueue":
            break
        found.insert(0, op)
    return found


def at(slot: Tensor, tensor: Tensor) -> Tensor:
    """Returns the start indices of a tensor's slot."""
    return tf.stack([slot, *([0] * len(tensor.shape))])
