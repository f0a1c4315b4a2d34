"""The names of a program and its parameters, as their author wrote them.

TensorFlow renames both: `train` becomes __inference_train_95[_XlaMustCompile=true,...].7,
the function of a version 1 program cluster_<number>_f15n_0[].7, and what a function
captures "resource" or "while_input_5".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ipufeed.executable.program.events import Lowered
from ipufeed.render.terminal_text import printable

# What TensorFlow puts around the name of a function that it traces.
BEFORE = re.compile(r"^_*(?:a_)?(?:inference|forward|backward)_")
AFTER = re.compile(r"(?:\[.*|_+XlaMustCompile.*|_+\d+|\.\d+)$", re.DOTALL)
# ... and of what xla.compile builds; ipufeed.device.program.compiler puts the author's
# name first.
CLUSTER = re.compile(
    r"^(?:(?P<author>.+?)__)?cluster(?:_\d+)*(?:_f15n.*|\[.*|\.\d+|)$", re.DOTALL
)
ANONYMOUS = frozenset({"<lambda>", "cluster", "program"})

ARGUMENT, VARIABLE, CAPTURED = "argument", "variable", "captured value"
OF = "of `"  # begins the name of what is called after its user
RESOURCE = 20  # of TensorFlow's element types
# Names that TensorFlow gives to what has none.
NAMELESS = re.compile(r"(?:while_|cond_|case_)*(?:input|resource|unknown)(?:_\d+)?$")
V1_ARGUMENT = re.compile(r"_\d+_arg$")
LOOP_COUNT = "ipufeedhostnumber"


def author_name(name: str) -> str:
    """The name of a function without what TensorFlow and XLA add to it.

    "cluster" for a version 1 program whose function has no name: not what distinguishes it
    from others.
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
    """The name and kind of each parameter of a program.

    What has no name of its author's is called after the op that uses it, or numbered.
    """
    from tensorflow.core.framework import function_pb2

    function = function_pb2.FunctionDef.FromString(lowered.function)
    given = {}
    for index, attributes in function.arg_attr.items():
        name = attributes.attr.get("_user_specified_name")
        if name is not None and name.s:
            given[index] = name.s.decode("utf-8", "replace")
    uses = users(function.node_def)
    parameters = []
    captured = 0
    for index in lowered.arguments:
        if not 0 <= index < len(function.signature.input_arg):
            parameters.append((str(index), ARGUMENT))
            continue
        argument = function.signature.input_arg[index]
        variable = argument.type == RESOURCE
        name = given.get(index, "")
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
    """The function's arguments that are not parameters of the program.

    XLA had to know their values: limits of tf.range, bounds of slices, shapes, axes.
    """
    from tensorflow.core.framework import function_pb2

    function = function_pb2.FunctionDef.FromString(lowered.function)
    names = []
    for index, argument in enumerate(function.signature.input_arg):
        if index in lowered.arguments or argument.type == RESOURCE:
            continue
        given = function.arg_attr[index].attr.get("_user_specified_name")
        name = given.s.decode("utf-8", "replace") if given is not None else ""
        names.append(name or V1_ARGUMENT.sub("", argument.name))
    return [name for name in names if not NAMELESS.match(name)]


def users(nodes: Iterable[Any]) -> dict[str, str]:
    """For each argument of a function the op that uses it, as far as a name shows it.

    A variable is read by an op whose name is that of its user and "/ReadVariableOp"; the
    one read without a user's name is left out.
    """
    found: dict[str, str] = {}
    # An op that assigns to a variable names it less well than one that computes with it.
    for node in sorted(nodes, key=lambda node: node.op.startswith("Assign")):
        name = node.name.removesuffix("/ReadVariableOp")
        if name.startswith(("ReadVariableOp", "Identity", "NoOp")):
            continue
        for value in node.input:
            found.setdefault(value.split(":")[0], name)
    return found
