"""Recovers the author's names of a program and its parameters.

TensorFlow renames both: `train` becomes __inference_train_95[_XlaMustCompile=true,...].7,
the function of a version 1 program cluster_<number>_f15n_0[].7, and a captured value
"resource" or "while_input_5".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ipufeed.executable.hlo.hlo import Message
from ipufeed.executable.program.events import Lowered
from ipufeed.render.terminal_text import printable

# What TensorFlow adds around the name of a traced function.
BEFORE = re.compile(r"^_*(?:a_)?(?:inference|forward|backward)_")
AFTER = re.compile(r"(?:\[.*|_+XlaMustCompile.*|_+\d+|\.\d+)$", re.DOTALL)
# The name of a function built by xla.compile, with the author's name in front, which
# ipufeed.device.program.compiler adds.
CLUSTER = re.compile(
    r"^(?:(?P<author>.+?)__)?cluster(?:_\d+)*(?:_f15n.*|\[.*|\.\d+|)$", re.DOTALL
)
ANONYMOUS = frozenset({"<lambda>", "cluster", "program"})

ARGUMENT, VARIABLE, CAPTURED = "argument", "variable", "captured value"
OF = "of `"  # begins the name of a parameter that is named after the op that uses it
RESOURCE = 20  # of TensorFlow's element types
# Names that TensorFlow gives to values without one.
NAMELESS = re.compile(r"(?:while_|cond_|case_)*(?:input|resource|unknown)(?:_\d+)?$")
V1_ARGUMENT = re.compile(r"_\d+_arg$")
LOOP_COUNT = "ipufeedhostnumber"


def author_name(name: str) -> str:
    """Removes from a function's name what TensorFlow and XLA add to it.

    Returns "cluster" for a version 1 program whose function has no name, so that such
    programs share one.
    """
    cluster = CLUSTER.match(name)
    if cluster:
        return cluster["author"] or "cluster"
    name = BEFORE.sub("", name)
    before = None
    while name != before:
        before, name = name, AFTER.sub("", name)
    return name or "program"


def argument_names(lowered: Lowered) -> list[tuple[str, str]]:
    """Returns the name and kind of each parameter of a program.

    A parameter without an author's name is named after the op that uses it, or numbered.
    """
    function = _function_of(lowered)
    uses = _users(function.node_def)
    parameters = []
    captured = 0
    for index in lowered.arguments:
        if not 0 <= index < len(function.signature.input_arg):
            parameters.append((str(index), ARGUMENT))
            continue
        argument = function.signature.input_arg[index]
        variable = argument.type == RESOURCE
        name = _given_name(function, index)
        if not name and V1_ARGUMENT.search(argument.name):
            name = V1_ARGUMENT.sub("", argument.name)
        if name.startswith(LOOP_COUNT):
            parameters.append(
                (f"{len(parameters)} (a loop's count, `steps`)", CAPTURED)
            )
        elif name and not NAMELESS.match(name):
            parameters.append((name, VARIABLE if variable else ARGUMENT))
        else:
            captured += 1
            user = uses.get(argument.name, "")
            if user and variable:
                parameters.append((f"{OF}{printable(user)}`", VARIABLE))
            else:
                of = f" (of `{printable(user)}`)" if user else ""
                parameters.append((f"{captured}{of}", CAPTURED))
    return parameters


def baked_names(lowered: Lowered) -> list[str]:
    """Returns the function's arguments that are not parameters of the program.

    XLA needs their values to compile: limits of tf.range, bounds of slices, shapes, axes.
    """
    function = _function_of(lowered)
    names = []
    for index, argument in enumerate(function.signature.input_arg):
        if index in lowered.arguments or argument.type == RESOURCE:
            continue
        name = _given_name(function, index)
        names.append(name or V1_ARGUMENT.sub("", argument.name))
    return [name for name in names if not NAMELESS.match(name)]


def variables_of(lowered: Lowered) -> frozenset[int]:
    """Returns the numbers of the parameters that are variables."""
    arguments = _function_of(lowered).signature.input_arg
    return frozenset(
        number
        for number, argument in enumerate(lowered.arguments)
        if 0 <= argument < len(arguments) and arguments[argument].type == RESOURCE
    )


def _function_of(lowered: Lowered) -> Message:
    """Parses the FunctionDef."""
    from tensorflow.core.framework import function_pb2

    return function_pb2.FunctionDef.FromString(lowered.function)


def _given_name(function: Message, argument: int) -> str:
    """Returns the name that the author gave to an argument, or ""."""
    given = function.arg_attr[argument].attr.get("_user_specified_name")
    return given.s.decode("utf-8", "replace") if given is not None else ""


def _users(nodes: Iterable[Message]) -> dict[str, str]:
    """Maps the arguments of a function to the ops that use them, as far as names show.

    The op that reads a variable has its user's name and "/ReadVariableOp"; one without a
    user's name is left out.
    """
    found: dict[str, str] = {}
    # Ops that assign come last: one that computes with the variable names it better.
    for node in sorted(nodes, key=lambda node: node.op.startswith("Assign")):
        name = node.name.removesuffix("/ReadVariableOp")
        if name.startswith(("ReadVariableOp", "Identity", "NoOp")):
            continue
        for value in node.input:
            found.setdefault(value.split(":")[0], name)
    return found
