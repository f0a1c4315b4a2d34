"""Keeps the queue ops of a program in the order in which they were written.

A queue op takes a token and gives one (cc/feeds/queue_ops.h). Within a graph each gets
the token of the one before it. Loops, branches and called functions have no token:

    in the graph      control dependencies order the ops that hold queue ops: loops,
                      conditionals, calls of functions. TensorFlow's executor needs no
                      more.
    when compiled     the native core passes the token through all of them, in the order
                      of these dependencies (ipufeed/cc/xla/lowering/token_chain.h).

In a function TensorFlow's automatic control dependencies make the edges: the order is
declared to them as a resource that each of these ops writes to. They do not work on
version 1 graphs; there `ordered` makes the edges when a program has been built.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ipufeed import _native

# The ops that call functions, with the attributes that name these. The stateless ones
# cannot hold queue ops.
CALLS = {
    "Case": ("branches",),
    "If": ("then_branch", "else_branch"),
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
    "While": ("cond", "body"),
}


def take_token() -> Any:
    """The token for the next queue op of the graph that is being built: uint32, scalar."""
    import tensorflow as tf

    if not tf.executing_eagerly():
        graph = tf.compat.v1.get_default_graph()
        context = graph._get_control_flow_context()
        found = tokens_of(graph).get(id(context))
        if found is not None:
            return found[1]
    return tf.constant(0, tf.uint32)


def put_token(token: Any) -> None:
    """The token that the queue op just built has given."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return
    graph = tf.compat.v1.get_default_graph()
    context = graph._get_control_flow_context()
    # The context is kept, so that its id cannot come to mean another one.
    tokens_of(graph)[id(context)] = (context, token)


def tokens_of(graph: Any) -> dict[int, tuple[Any, Any]]:
    """Id of a control-flow context -> (context, token), of the last queue op in it.

    An attribute of the graph, and no table of ours: tokens belong to the graph, and a
    cycle through a table is never collected.
    """
    tokens: dict[int, tuple[Any, Any]] | None = getattr(graph, "_ipufeed_tokens", None)
    if tokens is None:
        tokens = graph._ipufeed_tokens = {}
    return tokens


def holds_queue_ops(op: Any) -> bool:
    """Returns whether an op is a queue op, or calls a function that holds one."""
    if op.type.startswith("Ipufeed"):
        return any(argument.name == "token" for argument in op.op_def.input_arg)
    return any(
        function_holds_queue_ops(op.graph, name)
        for attribute in CALLS.get(op.type, ())
        for name in function_names(op.get_attr(attribute))
    )


def function_names(attribute: Any) -> list[str]:
    """Lists the names in an attribute that is a function, or a list of functions."""
    found = attribute if isinstance(attribute, list) else [attribute]
    return [str(each.name) for each in found]


def function_holds_queue_ops(graph: Any, name: str) -> bool:
    """Returns whether the function of this name in `graph` holds a queue op."""
    function = graph._get_function(name)
    body = getattr(function, "graph", None)
    if body is None:
        return False
    # A function with a name does not change any more.
    known: bool | None = getattr(body, "_ipufeed_holds_queue_ops", None)
    if known is None:
        known = any(map(holds_queue_ops, body.get_operations()))
        body._ipufeed_holds_queue_ops = known
    return known


class _Order:
    """Stands for the order of a program's effects among TensorFlow's resources.

    Automatic control dependencies take a resource's tensor, and read these two of it.
    """

    class op:  # noqa: N801 - as in tf.Tensor
        type = "IpufeedOrder"

    _id = -1


_ORDER = _Order()


def resolve_order(op: Any, reads: Any, writes: Any) -> bool:
    """Adds the order to the resources that an op writes to, if the op has a part in it.

    TensorFlow orders effects without a resource among themselves, such as tf.print or a
    loop without variables, and not with loops and calls that have a resource. All of them
    write to the order.

    See auto_control_deps.register_acd_resource_resolver for the arguments.
    """
    from tensorflow.python.framework import auto_control_deps

    if _ORDER in writes:
        return False
    if not auto_control_deps.op_is_stateful(op):
        return False
    if not holds_queue_ops(op) and (
        reads or writes or op._get_control_flow_context() is not None
    ):
        return False
    run_one_by_one(op)
    writes.add(_ORDER)
    return True


def run_one_by_one(op: Any) -> None:
    """Makes a loop begin an iteration only when the one before has ended.

    TensorFlow's executor otherwise runs several at once, and their effects in any order.
    """
    from tensorflow.core.framework import attr_value_pb2

    if op.type == "While":
        op._set_attr("parallel_iterations", attr_value_pb2.AttrValue(i=1))


def order_functions() -> None:
    """Registers resolve_order with TensorFlow, once."""
    from tensorflow.python.framework import auto_control_deps

    registry = auto_control_deps._acd_resource_resolvers_registry
    if "resolve_order" not in registry.list():
        auto_control_deps.register_acd_resource_resolver(resolve_order)


order_functions()


@contextlib.contextmanager
def ordered() -> Iterator[None]:
    """Puts the queue ops of the program that is built within it in order.

    In a function it changes nothing: resolve_order does it there.
    """
    import tensorflow as tf

    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if graph is None or graph.building_function:
        yield
        return
    around = graph._get_control_flow_context()
    first_op = len(graph.get_operations())
    # A program does not depend on one before it in the same graph.
    tokens_of(graph).pop(id(around), None)
    before = graph._add_control_dependencies
    graph._add_control_dependencies = True  # in the bodies of version 2 control flow
    try:
        yield
    finally:
        graph._add_control_dependencies = before
    put_in_order(graph.get_operations()[first_op:], around)


@dataclass
class _Item:
    """A step in the order of a control-flow context: an op, a loop or a conditional.

    Attributes:
        entries: The ops that must wait for the step before.
        exits: The ops that run when the step has ended.
        contexts: Those of a version 1 loop, or of a conditional's branches.
    """

    entries: list[Any]
    exits: list[Any]
    contexts: list[Any] = field(default_factory=list)


def put_in_order(operations: list[Any], around: Any) -> None:
    """Makes each queue op, loop, conditional and call depend on the one before it.

    Args:
        operations: Operations of a version 1 graph, in the order of their creation.
        around: The control-flow context to put in order, with the contexts in it.
    """
    items: dict[Any, _Item] = {}
    for op in operations:
        if not holds_queue_ops(op):
            continue
        within = contexts_within(op, around)
        if within is None:
            continue
        if not within:
            run_one_by_one(op)
            items[op] = _Item([op], [op])
        elif within[0].IsWhileContext():
            if within[0] not in items:
                items[within[0]] = loop_item(within[0], operations)
        elif within[0].IsCondContext():
            switch = within[0].pivot.op.inputs[0].op
            if switch not in items:
                items[switch] = conditional_item(switch, operations, around)
    before: list[Any] = []
    for item in items.values():
        if before:
            for entry in item.entries:
                entry._add_control_inputs(before)
            if item.contexts:
                delay_an_input(item.entries, before, around)
        before = item.exits
        for context in item.contexts:
            put_in_order(operations, context)


def delay_an_input(entries: list[Any], before: list[Any], around: Any) -> None:
    """Makes a value that a loop or conditional takes wait for the step before.

    TensorFlow drops the control inputs of Enter and Switch operations when it makes a
    compiled program's While and If operations out of them, and keeps their data inputs.
    (A conditional's predicate does not do: it looks through identities.)
    """
    import tensorflow as tf

    # A conditional's first switch is of the predicate itself.
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


def contexts_within(op: Any, around: Any) -> list[Any] | None:
    """Lists the contexts from `around` to an op; None if it is not in `around`."""
    found: list[Any] = []
    context = op._get_control_flow_context()
    while context is not around:
        if context is None:
            return None
        found.insert(0, context)
        context = context.outer_context
    return found


def loop_item(context: Any, operations: list[Any]) -> _Item:
    """Makes the step of a version 1 loop, whose iterations then run one by one."""
    from tensorflow.core.framework import attr_value_pb2

    enters = [enter.op for enter in context.loop_enters]
    frame = enters[0].get_attr("frame_name")
    for op in operations:
        if op.type in ("Enter", "RefEnter") and op.get_attr("frame_name") == frame:
            op._set_attr("parallel_iterations", attr_value_pb2.AttrValue(i=1))
    return _Item(enters, [leave.op for leave in context.loop_exits], [context])


def conditional_item(switch: Any, operations: list[Any], around: Any) -> _Item:
    """Makes the step of a version 1 conditional, whose predicate `switch` takes."""
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

    def in_branch(op: Any) -> bool:
        return op._get_control_flow_context() in branches

    # Each tensor that a branch takes from outside goes through a switch of its own.
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
    """A number that a program takes as an input, and what it is the number of.

    Attributes:
        tensor: The input, outside of all functions.
        number: Its value.
        queue: The queue that has this number; None for another, such as a loop's count.
    """

    tensor: Any
    number: int
    queue: Any = None


_made: contextvars.ContextVar[list[MadeNumber] | None] = contextvars.ContextVar(
    "ipufeed_numbers", default=None
)


@contextlib.contextmanager
def recorded_numbers() -> Iterator[list[MadeNumber]]:
    """Lists the numbers that a program is given while it is traced within it."""
    made: list[MadeNumber] = []
    token = _made.set(made)
    try:
        yield made
    finally:
        _made.reset(token)


def host_number(number: int, queue: Any = None) -> Any:
    """A number as a tensor (int64, scalar) that compiled programs take as an input.

    It is made outside of every function and loop, so that a program does not depend on
    it: the number of a queue, or how often a loop runs.

    Args:
        number: The value.
        queue: What has this number, for recorded_numbers.
    """
    import tensorflow as tf

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
