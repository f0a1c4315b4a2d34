"""Keeps the queue ops of a program in the order in which they were written.

Assertions have a place in this order, too: the queue ops after one that fails do not run. A
program without queue ops needs no order of its assertions.

A queue op has a token as input and as output (cc/feeds/queue_ops.h). In a graph its input
is the token of the queue op before it. Loops, branches and called functions have no token:

    in the graph      control dependencies order the ops that contain queue ops: loops,
                      conditionals, function calls. They suffice for TensorFlow's executor.
    when compiled     the native core passes the token through all of them, in the order
                      of these dependencies (ipufeed/cc/xla/lowering/token_chain.h).

In a function TensorFlow's automatic control dependencies add the edges: the order is
registered as a resource that each of these ops writes. They do not work on version 1
graphs; there `ordered` adds the edges when a program has been built.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import auto_control_deps

from ipufeed import _native
from ipufeed.queues.chained_ops import is_ordered
from ipufeed.tf_types import ControlContext, Graph, Operation, Tensor


def take_token() -> Tensor:
    """Returns the input token of the next queue op of the current graph: uint32, scalar."""
    if not tf.executing_eagerly():
        graph = tf.compat.v1.get_default_graph()
        context = graph._get_control_flow_context()
        found = _tokens_of(graph).get(id(context))
        if found is not None:
            return found[1]
    return tf.constant(0, tf.uint32)


def put_token(token: Tensor) -> None:
    """Stores the output token of the queue op that was just built."""
    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    context = graph._get_control_flow_context()
    # The entry refers to the context, so that its id is not reused for another one.
    _tokens_of(graph)[id(context)] = (context, token)


def _tokens_of(graph: Graph) -> dict[int, tuple[ControlContext, Tensor]]:
    """Returns id of a control-flow context -> (context, token of its last queue op).

    An attribute of the graph instead of a table here: a reference cycle through a
    module's table is never collected.
    """
    tokens: dict[int, tuple[ControlContext, Tensor]] | None = getattr(
        graph, "_ipufeed_tokens", None
    )
    if tokens is None:
        tokens = graph._ipufeed_tokens = {}
    return tokens


def is_one_program() -> bool:
    """Returns whether the ops that are built now are one program, which runs them all.

    True in a function and within `ordered`. Of another version 1 graph a session runs
    what it fetches: a queue op there must not need an assertion of something else.
    """
    graph = tf.compat.v1.get_default_graph()
    return graph.building_function or getattr(graph, "_ipufeed_is_ordered", False)


def with_outer(graph: Graph) -> Iterator[Graph]:
    """Yields a graph and its outer graphs, from the inside."""
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)


class _Order:
    """Represents the order of a program's side effects as a resource.

    Automatic control dependencies expect a resource's tensor and read these attributes.
    """

    class op:  # noqa: N801 - as in tf.Tensor
        type = "IpufeedOrder"

    _id = -1


_ORDER = _Order()


def _resolve_order(op: Operation, reads: set[Any], writes: set[Any]) -> bool:
    """Adds _ORDER to the resources that a stateful op writes; returns whether it did.

    TensorFlow orders effects without a resource, such as tf.print or a loop without
    variables, among themselves, but not relative to loops and calls with a resource. So
    all of them write _ORDER.

    See auto_control_deps.register_acd_resource_resolver for the arguments.
    """
    if _ORDER in writes:
        return False
    if not auto_control_deps.op_is_stateful(op):
        return False
    if not is_ordered(op) and (
        reads or writes or op._get_control_flow_context() is not None
    ):
        return False
    _run_one_by_one(op)
    writes.add(_ORDER)
    return True


def _run_one_by_one(op: Operation) -> None:
    """Makes a loop's iterations sequential.

    TensorFlow's executor otherwise overlaps them, with their effects in any order.
    """
    if op.type == "While":
        op._set_attr("parallel_iterations", attr_value_pb2.AttrValue(i=1))


def _order_functions() -> None:
    registry = auto_control_deps._acd_resource_resolvers_registry
    if "_resolve_order" not in registry.list():
        auto_control_deps.register_acd_resource_resolver(_resolve_order)


_order_functions()


@contextlib.contextmanager
def ordered() -> Iterator[None]:
    """Orders the queue ops of the program that is built within this context.

    It changes nothing in a function: _resolve_order orders them there.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is None or graph.building_function:
        yield
        return
    around = graph._get_control_flow_context()
    first_op = len(graph.get_operations())
    # A program does not depend on one before it in the same graph.
    _tokens_of(graph).pop(id(around), None)
    before = graph._add_control_dependencies
    graph._add_control_dependencies = True  # in the bodies of version 2 control flow
    was_ordered = getattr(graph, "_ipufeed_is_ordered", False)
    graph._ipufeed_is_ordered = True
    try:
        yield
    finally:
        graph._add_control_dependencies = before
        graph._ipufeed_is_ordered = was_ordered
    _put_in_order(graph.get_operations()[first_op:], around)


@dataclass
class _Item:
    """An item to order within a control-flow context: an op, a loop or a conditional.

    Attributes:
        entries: The ops that must wait for the item before.
        exits: The ops that run when the item has ended.
        contexts: The context of a version 1 loop, or those of a conditional's branches.
    """

    entries: list[Operation]
    exits: list[Operation]
    contexts: list[ControlContext] = field(default_factory=list)


def _put_in_order(operations: list[Operation], around: ControlContext) -> None:
    """Makes each queue op, assertion, loop, conditional and call depend on the last one.

    Args:
        operations: Operations of a version 1 graph, in the order of their creation.
        around: The control-flow context to order, including its inner contexts.
    """
    items: dict[Operation | ControlContext, _Item] = {}
    for op in operations:
        if not is_ordered(op):
            continue
        within = _contexts_within(op, around)
        if within is None:
            continue
        if not within:
            _run_one_by_one(op)
            items[op] = _Item([op], [op])
        elif within[0].IsWhileContext():
            if within[0] not in items:
                items[within[0]] = _loop_item(within[0], operations)
        elif within[0].IsCondContext():
            switch = within[0].pivot.op.inputs[0].op
            if switch not in items:
                items[switch] = _conditional_item(switch, operations, around)
    before: list[Operation] = []
    for item in items.values():
        if before:
            for entry in item.entries:
                entry._add_control_inputs(before)
            if item.contexts:
                _delay_an_input(item.entries, before, around)
        before = item.exits
        for context in item.contexts:
            _put_in_order(operations, context)


def _delay_an_input(
    entries: list[Operation], before: list[Operation], around: ControlContext
) -> None:
    """Delays one data input of a loop or conditional until the item before has ended.

    TensorFlow drops the control inputs of Enter and Switch operations when it converts
    them to While and If for a compiled program, and keeps their data inputs. (The
    predicate of a conditional does not work: TensorFlow skips identities there.)
    """
    # The first switch of a conditional has the predicate itself as data input.
    taker = next(
        (
            op
            for op in entries
            if op.type != "Switch" or op.inputs[0] is not op.inputs[1]
        ),
        entries[0],
    )
    value = taker.inputs[0]
    graph = taker.graph
    current = graph._get_control_flow_context()
    graph._set_control_flow_context(around)
    try:
        with graph.device(taker.device):
            delayed = tf.identity(value)
    finally:
        graph._set_control_flow_context(current)
    delayed.op._add_control_inputs(before)
    taker._update_input(0, delayed)


def _contexts_within(
    op: Operation, around: ControlContext
) -> list[ControlContext] | None:
    """Lists the contexts from `around` to an op; None if it is not in `around`."""
    found: list[ControlContext] = []
    context = op._get_control_flow_context()
    while context is not around:
        if context is None:
            return None
        found.insert(0, context)
        context = context.outer_context
    return found


def _loop_item(context: ControlContext, operations: list[Operation]) -> _Item:
    """Returns the item of a version 1 loop, and makes its iterations sequential."""
    enters = [enter.op for enter in context.loop_enters]
    frame = enters[0].get_attr("frame_name")
    for op in operations:
        if op.type in ("Enter", "RefEnter") and op.get_attr("frame_name") == frame:
            op._set_attr("parallel_iterations", attr_value_pb2.AttrValue(i=1))
    return _Item(enters, [leave.op for leave in context.loop_exits], [context])


def _conditional_item(
    switch: Operation, operations: list[Operation], around: ControlContext
) -> _Item:
    """Returns the item of the version 1 conditional whose predicate enters `switch`."""
    branches = []
    for op in operations:
        context = op._get_control_flow_context()
        if (
            context is not None
            and context.IsCondContext()
            and context.pivot.op.inputs[0].op is switch
            and context not in branches
        ):
            branches.append(context)

    def in_branch(op: Operation) -> bool:
        return op._get_control_flow_context() in branches

    # Each outside tensor that a branch uses passes through its own switch.
    switches = [op for op in operations if op.type == "Switch" and in_branch(op)]
    merges = [
        op
        for op in operations
        if op.type == "Merge"
        and op._get_control_flow_context() is around
        and any(in_branch(value.op) for value in op.inputs)
    ]
    return _Item([switch, *switches], merges, branches)


@dataclass(frozen=True)
class MadeNumber:
    """A number that is an input of a program.

    Attributes:
        tensor: The input, outside of all functions.
        number: Its value.
        queue: The queue with this number; None for another, such as a loop's count.
    """

    tensor: Tensor
    number: int
    queue: Any = None


_made: contextvars.ContextVar[list[MadeNumber] | None] = contextvars.ContextVar(
    "ipufeed_numbers", default=None
)


@contextlib.contextmanager
def recorded_numbers() -> Iterator[list[MadeNumber]]:
    """Gives a list that collects the host numbers of the program traced in this context."""
    made: list[MadeNumber] = []
    token = _made.set(made)
    try:
        yield made
    finally:
        _made.reset(token)


def is_for_a_file() -> bool:
    """Whether the program traced in this context goes to a file, for other processes."""
    return _made.get() is not None


def host_number(number: int, queue: object = None) -> Tensor:
    """Returns a number as a tensor (int64, scalar) that is an input of compiled programs.

    It is built outside of every function and loop, so that the compiled program does not
    depend on its value: the number of a queue, or the iterations of a loop.

    Args:
        number: The value.
        queue: The queue with this number, for recorded_numbers.
    """
    ops = _native.load()
    with tf.init_scope(), tf.device("/device:CPU:0"):
        if tf.executing_eagerly():
            tensor = tf.constant(number, tf.int64)
        else:
            tensor = ops.ipufeed_host_number(number=number)
    made = _made.get()
    if made is not None:
        made.append(MadeNumber(tensor, number, queue))
    return tensor
