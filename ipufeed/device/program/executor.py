"""The executor of programs, XLA's compiler or TensorFlow's: which, and what it must run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ipufeed import _native
from ipufeed.process_state import STATE
from ipufeed.tf_types import Graph, Operation, Tensor, Variable

_EXECUTORS = ("xla", "tensorflow")
_executor = "xla"


def executor() -> str:
    """Returns `xla` or `tensorflow`: see set_executor."""
    return _executor


def set_executor(name: str) -> None:
    """Chooses the executor of the programs that are built after the call.

    Graphs without `ipu_compiler.compile` and functions without `jit_compile` are built when
    they first run: a session's by its first run with the same feeds and fetches.

    Args:
        name: `xla`, the default: the whole loop is one compiled program. `tensorflow`:
            TensorFlow's executor runs it op by op: convolutions are about twice as fast
            (oneDNN), small bodies ten times slower, and errors name the Python line. After
            an error inside a loop, variables have their values from before the program
            with `xla`, and those of the last iteration with `tensorflow`.

    Raises:
        ValueError: Another name.
    """
    global _executor
    if name not in _EXECUTORS:
        raise ValueError(
            f"The executor must be one of {', '.join(_EXECUTORS)}, got {name!r}."
        )
    _executor = name
    _native.entry().ipufeed_set_compiles_graphs(int(name == "xla"))


@STATE.part("executor")
def _reset_executor() -> None:
    set_executor(_EXECUTORS[0])


@contextlib.contextmanager
def executor_scope(name: str) -> Iterator[None]:
    """Sets the executor within this context."""
    before = _executor
    set_executor(name)
    try:
        yield
    finally:
        set_executor(before)


# Stateful ops without an effect when the program runs.
NO_EFFECT = {
    "IpufeedHostNumber",
    "IpufeedInfeedCreate",
    "IpufeedInfeedDelete",
    "IpufeedOutfeedDelete",
    "IpufeedSeed",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
    "VarHandleOp",
    "VarIsInitializedOp",
}


def side_effects(graph: Graph, first_op: int, made: list[Variable]) -> list[Operation]:
    """Lists the ops of a program that must run although no result depends on them.

    A compiled program runs all of its ops, such as an assignment with an unused result;
    the executor only runs those that are fetched. Excluded are the initialisers of the
    program's variables, and ops that do not run if a branch is not taken.

    Args:
        graph: A graph.
        first_op: The number of its operations before the program.
        made: The variables that the program has created.
    """
    if graph.building_function:  # TensorFlow's control dependencies run them
        return []
    operations = graph.get_operations()[first_op:]
    excluded = _initializing_ops(set(operations), made) | _in_branches(operations)
    context = graph._get_control_flow_context()
    return [
        op
        for op in operations
        if op.op_def.is_stateful
        and op.type not in NO_EFFECT
        and op not in excluded
        # Ops in a loop or a branch run with it.
        and op._get_control_flow_context() is context
    ]


def _initializing_ops(
    operations: set[Operation], variables: list[Variable]
) -> set[Operation]:
    """Returns the initializers of variables, and their inputs among `operations`."""
    found: set[Operation] = set()
    waiting = [variable.initializer for variable in variables]
    while waiting:
        op = waiting.pop()
        if op not in operations or op in found:
            continue
        found.add(op)
        waiting += [tensor.op for tensor in op.inputs]
        waiting += list(op.control_inputs)
    return found


def _in_branches(operations: list[Operation]) -> set[Operation]:
    """Returns the ops that do not run if a branch of a version 1 conditional is not taken.

    The gradients of a branch are among them, outside of its context. A Merge has the
    branches that its inputs have in common: the program waits for what has none.

    Args:
        operations: In the order of their creation.
    """
    found: dict[Operation, frozenset[object]] = {}
    for op in operations:
        sides = [
            found.get(tensor.op, frozenset()) | _side(tensor) for tensor in op.inputs
        ]
        if op.type == "Merge" and not _is_of_loop(op):
            found[op] = frozenset.intersection(*sides)
        else:
            before = (found.get(each, frozenset()) for each in op.control_inputs)
            found[op] = frozenset().union(*sides, *before)
    return {op for op, branches in found.items() if branches}


def _side(tensor: Tensor) -> frozenset[object]:
    """Returns the branch that a result of a conditional's Switch is in: one, or none."""
    if tensor.op.type != "Switch" or _is_of_loop(tensor.op):
        return frozenset()
    predicate = tensor.op.inputs[1]
    while predicate.op.type == "Identity":
        predicate = predicate.op.inputs[0]
    return frozenset([(predicate.op, predicate.value_index, tensor.value_index)])


def _is_of_loop(op: Operation) -> bool:
    """Returns whether a Switch or Merge is that of a loop's iterations."""
    last = op.inputs[-1].op.type
    return last in ("LoopCond", "NextIteration")
