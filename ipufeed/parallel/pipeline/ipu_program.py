"""The program of one IPU: a loop whose iterations run each of its stages once.

    for i in range(count + lag):
        for each position of the IPU, in the schedule's order:
            mini_batch = i - its lag;  if 0 <= mini_batch < count:
                receive what other IPUs have sent, take what this one has kept
                begins: the inputs are there
                compute
                ends: the outputs are made
                send, keep, add to what is accumulated

An IPU with one lag, such as any that has one stage, has no conditions: its program is the
stage in a loop. What is kept has a slot for each mini-batch on its way, and one more that
is written while the position has none, so that XLA updates the slots in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
)

# Of the ops that depend on it: the name in the causes of a program that is compiled again.
COUNT_NAME = "gradient_accumulation_count"


@dataclass
class Kept:
    """A tensor that waits on its IPU for a later iteration, in slots.

    Attributes:
        source: The position that writes it.
        target: The position that reads it.
        tensor: Of the traced graph.
        slots: Mini-batches on their way.
    """

    source: Position
    target: Position
    tensor: Any
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

    def build(self) -> list[Any]:
        """Builds the loop; gives its last token, and what it has accumulated.

        The second in the order of `results`. The token is there once it has run.
        """
        import tensorflow as tf

        traced = self.plan.traced
        sums = []
        for number in self.results:
            tensor = traced.results[number]
            dtype = self.plan.accumulations[number].dtype
            sums.append(tf.zeros(tensor.shape, dtype))
        slots = [
            tf.zeros([each.slots + 1, *each.tensor.shape], each.tensor.dtype)
            for each in self.kept
        ]

        iterations = self.plan.count + self.last_lag

        def body(iteration: Any, token: Any, *carried: Any) -> list[Any]:
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
        """A stage's name scope: how often it runs, for executable/report/cost.py."""
        count = self.plan.count
        if not isinstance(count, int):
            return "some_iterations"
        return f"{count}_of_{count + self.last_lag}_iterations"


class _Iteration:
    """One iteration of the loop while it is built."""

    def __init__(
        self, program: IPUProgram, iteration: Any, token: Any, carried: list[Any]
    ) -> None:
        self.program = program
        self.iteration = iteration
        self.token = token
        split = len(program.results)
        self.sums, self.slots = carried[:split], carried[split:]
        # Of this iteration: what a position has given to another one of the IPU.
        self.direct: dict[tuple[Position, int], Any] = {}

    def take(self, part: Part) -> None:
        """Runs a position."""
        import tensorflow as tf

        program, position = self.program, part.position
        mini_batch = self.iteration - program.lags[position]
        in_time = tf.less(mini_batch, program.plan.count, COUNT_NAME)
        active = tf.logical_and(mini_batch >= 0, in_time)
        known = self.local_inputs(part, mini_batch)
        exports = self.exports(position)
        wanted = [*exports, *(program.plan.traced.results[n] for n in part.results)]

        def compute() -> list[Any]:
            copy = _Copy(program.plan, part, self.token, mini_batch, dict(known))
            return copy.run(wanted)

        def rest() -> list[Any]:
            return [
                tf.identity(self.token),
                *(tf.zeros(each.shape, each.dtype) for each in wanted),
            ]

        if program.always:
            values = compute()
        else:
            with tf.name_scope(program.iterations_of_a_stage()):
                values = tf.cond(active, compute, rest)
        values = tf.nest.flatten(values)  # a list of one has become its element
        self.token = values[0]
        given = dict(zip(map(id, exports), values[1:], strict=False))
        for tensor in exports:
            self.direct[position, id(tensor)] = given[id(tensor)]
        self.keep(position, mini_batch, active, given)
        sums = values[1 + len(exports) :]
        for number, value in zip(part.results, sums, strict=True):
            self.accumulate(number, value, mini_batch, active)

    def exports(self, position: Position) -> list[Any]:
        """What other positions of the IPU need of this one."""
        found: dict[int, Any] = {}
        for part in self.program.parts:
            for tensor in part.incoming.get(position, []):
                found[id(tensor)] = tensor
        return list(found.values())

    def local_inputs(self, part: Part, mini_batch: Any) -> dict[int, Any]:
        """What comes from positions of the same IPU, by the traced tensor's id."""
        import tensorflow as tf
        from tensorflow.compiler.tf2xla.ops import gen_xla_ops as xla

        found: dict[int, Any] = {}
        for place, kept in enumerate(self.program.kept):
            if kept.target != part.position:
                continue
            start = at(mini_batch % kept.slots, kept.tensor)
            size = tf.constant([1, *kept.tensor.shape], tf.int32)
            row = xla.xla_dynamic_slice(self.slots[place], start, size)
            found[id(kept.tensor)] = tf.reshape(row, kept.tensor.shape)
        for source, tensors in part.incoming.items():
            for tensor in tensors:
                value = self.direct.get((source, id(tensor)))
                if value is not None and id(tensor) not in found:
                    found[id(tensor)] = value
        return found

    def keep(
        self, position: Position, mini_batch: Any, active: Any, given: dict[int, Any]
    ) -> None:
        """Writes what later iterations need into its slots."""
        import tensorflow as tf
        from tensorflow.compiler.tf2xla.ops import gen_xla_ops as xla

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

    def accumulate(self, number: int, value: Any, mini_batch: Any, active: Any) -> None:
        """Adds a value; that of a position without a mini-batch is zero, and no value."""
        import tensorflow as tf

        place = self.program.results.index(number)
        how = self.program.plan.accumulations[number]
        before = self.sums[place]
        after = how.update(before, tf.cast(value, how.dtype), mini_batch)
        if not self.program.always:
            after = tf.where(active, after, before)
        self.sums[place] = after


class _Copy(Copier):
    """Copies what a position does into the current graph."""

    def __init__(
        self,
        plan: Plan,
        part: Part,
        token: Any,
        mini_batch: Any,
        known: dict[int, Any],
    ) -> None:
        super().__init__(plan.traced.graph, known, token)
        self.plan = plan
        self.part = part
        self.mini_batch = mini_batch
        # Ids of what is computed of the inputs, once they are there.
        self.inside: set[int] = set()
        self.begun = False

    def run(self, wanted: list[Any]) -> list[Any]:
        """Receives, computes and sends; gives the token and the tensors that are wanted.

        The two marks lie in the data, not only in the order of the calls: XLA computes
        what has its operands, wherever the calls are.
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
        enqueues = last_enqueues(self.part.ops)
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

    def make(self, op: Any, inputs: list[Any]) -> Any:
        """The copy of an op; one that is there for its effect stays between the marks.

        Also if it takes none of the inputs, as the gradient of a last stage's wait.
        """
        if self.begun and not any(id(each) in self.inside for each in inputs):
            if not has_effect(op) or op.type in TOKEN_INPUTS:
                return super().make(op, inputs)
            own = [place for place, each in enumerate(inputs) if can_cross(each)]
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
        """Takes what another IPU has sent; gives the ids of the tensors."""
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
        """Takes what the infeed has, if it is this position's; gives the tensors' ids."""
        own = [op for op in self.part.ops if op.type == "IpufeedDequeue"]
        for op in in_order(own, lambda op: [each.op for each in data_inputs(op)]):
            self.copy(op)
        return [id(tensor) for op in own for tensor in op.outputs[:-1]]

    def effects(self, enqueues: list[Any]) -> list[Any]:
        """What must be computed by the end though it is not a result.

        What is enqueued and assigned, and what an op gives that is there for its effect;
        calls that are chained have the token.
        """
        found: dict[int, Any] = {}
        for op in self.part.ops:
            if op not in enqueues and (op.type in TOKEN_INPUTS or not has_effect(op)):
                continue
            takes = op in enqueues or not op.outputs
            for tensor in data_inputs(op) if takes else op.outputs:
                if can_cross(tensor):
                    found[id(tensor)] = tensor
        return [self.value(each) for each in found.values()]


def last_enqueues(ops: list[Any]) -> list[Any]:
    """Those of a position's enqueues behind which it does nothing in the ops' order."""
    found: list[Any] = []
    for op in reversed([each for each in ops if each.type in TOKEN_INPUTS]):
        if op.type != "IpufeedEnqueue":
            break
        found.insert(0, op)
    return found


def at(slot: Any, tensor: Any) -> Any:
    """Where the slot of a tensor begins."""
    import tensorflow as tf

    return tf.stack([slot, *([0] * len(tensor.shape))])
