"""Users' operations: functions of CPU libraries, and references of Poplar libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import errors

from ipufeed.checks import as_path, flags_checked
from ipufeed.errors import RefusedError
from ipufeed.ops import host_calls, references
from ipufeed.ops.codelets.expression import (
    codelet_expression_op as codelet_expression_op,
)
from ipufeed.ops.host import user_library
from ipufeed.ops.host.user_op_arguments import (
    as_inputs,
    as_numbers,
    as_signature,
    check_attributes,
    check_texts,
)
from ipufeed.queues.chain import is_for_a_file
from ipufeed.queues.library_errors import explain_thrown
from ipufeed.tf_types import DType, Nest, Operation, Shape, Tensor, TensorLike


@flags_checked
def precompiled_user_op(
    inputs: Iterable[TensorLike],
    library_path: str,
    gp_path: str = "",
    outs: dict[str, Any] | None = None,
    name: str = "UserOp",
    op_name: str = "Build",
    separate_gradients: bool = False,
    inputs_with_gradients: list[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> list[Tensor]:
    """Builds the reference of an operation of a Poplar library: see references.py.

    Args:
        inputs: Tensors.
        library_path: The library. It is not opened; its file name selects the reference.
        gp_path: The path of codelets. Not read.
        outs: {"output_types": [...], "output_shapes": [...]}. Default: no outputs.
        name: The operations' name.
        op_name: The operation's name in the library.
        separate_gradients: The reference's gradient is called for each input.
        inputs_with_gradients: The inputs that have a gradient. Default: all.
        attributes: An argument of the reference.
        gradient_attributes: An argument of the reference's gradient.

    Returns:
        A list of tensors.

    Raises:
        RefusedError: The reference is missing; the message has the line that registers one.
        TypeError: An argument is of another type.
        ValueError: The attributes are not a str, `outs` lacks something, or the reference
            has other outputs.
    """
    del gp_path
    library_path = as_path("library_path", library_path)
    check_texts(library_path=library_path, op_name=op_name, name=name)
    check_attributes(attributes, gradient_attributes)
    inputs = as_inputs(inputs)
    chosen = as_numbers(inputs, inputs_with_gradients)
    types, shapes = as_signature(outs, defined=False)
    reference = references.find(library_path, op_name)
    if reference is None:
        raise RefusedError(_without_reference(library_path, op_name, outs))

    def forward(values: list[Tensor]) -> list[Tensor]:
        results = reference.forward(list(values), attributes, outs)
        return _checked(results, types, shapes, library_path, op_name)

    given = reference.gradient
    with tf.name_scope(name):
        if given is None:
            return forward(_without_gradients(inputs, chosen))

        def gradient(
            dys: list[Tensor], outputs: list[Tensor], index: int | None
        ) -> list[Tensor]:
            found = given(dys, outputs, inputs, gradient_attributes, index)
            wanted = len(inputs) if index is None else 1
            if not isinstance(found, (list, tuple)) or len(found) != wanted:
                raise ValueError(
                    f"The gradient of the reference of {op_name!r} of "
                    f"{os.path.basename(library_path)!r} must return a list of {wanted}: "
                    f"{'one for each input' if index is None else 'of that input'}, got "
                    f"{_described(found)}."
                )
            return list(found)

        return _with_gradient(inputs, forward, gradient, separate_gradients, chosen)


@flags_checked
def cpu_user_operation(
    inputs: Iterable[TensorLike],
    library_path: str,
    outs: dict[str, Any] | None = None,
    name: str = "UserOp",
    op_name: str = "Callback",
    separate_gradients: bool = False,
    inputs_with_gradients: list[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> list[Tensor] | Operation | None:
    """Calls a function of a user's shared library while the program runs.

    docs/operations.md ("Operations on the host") has the interface of the library. Its
    code runs in this process. A library that is rebuilt is loaded when the program is
    built again.

    Args:
        inputs: Tensors.
        library_path: The shared library.
        outs: {"output_types": [...], "output_shapes": [...]}, of defined shapes. Default:
            no outputs.
        name: The operation's name, which is passed to the function.
        op_name: The function's name in the library. Its gradient is `<op_name>_grad`.
        separate_gradients: The gradient is called for each input, with one output.
        inputs_with_gradients: The inputs that have a gradient. Default: all.
        attributes: An argument of the function.
        gradient_attributes: An argument of the gradient's function.

    Returns:
        A list of tensors; without outputs the operation (eagerly: None).

    Raises:
        TypeError: An argument is of another type.
        ValueError: The attributes are not a str, or `outs` lacks something.
        tf.errors.NotFoundError: The library, or the function in it, is missing.
        tf.errors.InternalError: The library has another level of the interface; or when it
            runs: the function has thrown an exception.
    """
    library_path = as_path("library_path", library_path)
    check_texts(library_path=library_path, op_name=op_name, name=name)
    check_attributes(attributes, gradient_attributes)
    inputs = as_inputs(inputs)
    chosen = as_numbers(inputs, inputs_with_gradients)
    signature = list(zip(*as_signature(outs, defined=True), strict=True))

    def call(
        values: list[Tensor],
        outputs: list[tuple[DType, Shape]],
        symbol: str,
        attributes: str | None,
    ) -> list[Tensor]:
        texts = symbol, name, attributes or ""
        return _call_library(library_path, texts, values, outputs)

    if not signature:
        call(inputs, [], op_name, attributes)
        return host_calls.last_operation()

    def forward(values: list[Tensor]) -> list[Tensor]:
        return call(list(values), signature, op_name, attributes)

    def gradient(
        dys: list[Tensor], outputs: list[Tensor], index: int | None
    ) -> list[Tensor]:
        numbers = chosen if index is None else [index]
        gives = [(inputs[each].dtype, inputs[each].shape) for each in numbers]
        found = call(
            [*dys, *outputs, *inputs], gives, f"{op_name}_grad", gradient_attributes
        )
        if index is not None:
            return found
        return [
            found[chosen.index(each)] if each in chosen else None
            for each in range(len(inputs))
        ]

    return _with_gradient(inputs, forward, gradient, separate_gradients, chosen)


def _call_library(
    path: str,
    texts: tuple[str, str, str],
    values: list[Tensor],
    outputs: list[tuple[DType, Shape]],
) -> list[Tensor]:
    """Builds a call of a function: its symbol, the op's name, and the attributes."""
    library = user_library.load(path)
    library.check(texts[0])
    # The copy of a library is on this machine only.
    loaded = library.path if is_for_a_file() else library.loaded
    text = "\0".join((loaded, *texts, library.digest, library.path))
    try:
        return host_calls.call("library", text, values, outputs)
    except errors.OpError as error:  # it ran eagerly
        explain_thrown(error, [text])
        raise


def _without_gradients(inputs: list[Tensor], chosen: list[int]) -> list[Tensor]:
    return [
        each if number in chosen else tf.stop_gradient(each)
        for number, each in enumerate(inputs)
    ]


def _with_gradient(
    inputs: list[Tensor],
    forward: Callable[[list[Tensor]], list[Tensor]],
    gradient: Callable[[list[Tensor], list[Tensor], int | None], list[Tensor]],
    separate: bool,
    chosen: list[int],
) -> list[Tensor]:
    """Returns the outputs of `forward`, with `gradient` as its gradient."""

    def run(*values: Tensor) -> Nest:
        outputs = forward(list(values))

        def back(*given_dys: Tensor) -> list[Tensor]:
            if not chosen:
                return [None] * len(inputs)
            # TensorFlow gives None for an output of integers. The function has a
            # position for each output: zeros, as for one that nothing depends on.
            dys = [
                tf.zeros_like(output) if dy is None else tf.convert_to_tensor(dy)
                for dy, output in zip(given_dys, outputs, strict=True)
            ]
            if separate:
                found = {each: gradient(dys, outputs, each)[0] for each in chosen}
            else:
                given = gradient(dys, outputs, None)
                found = {each: given[each] for each in chosen}
            return [found.get(number) for number in range(len(inputs))]

        return outputs, back

    results = tf.custom_gradient(run)(*inputs)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _checked(
    results: Iterable[TensorLike],
    types: list[DType],
    shapes: list[Shape],
    library: str,
    op_name: str,
) -> list[Tensor]:
    """Returns a reference's outputs; raises ValueError if `outs` differs."""
    if not isinstance(results, (list, tuple)):
        raise TypeError(
            f"The reference of {op_name!r} of {os.path.basename(library)!r} must return a "
            f"list of tensors, got {_described(results)}."
        )
    tensors = [tf.convert_to_tensor(each) for each in results]
    found = [(each.dtype.name, each.shape) for each in tensors]
    wanted = [(dtype.name, shape) for dtype, shape in zip(types, shapes, strict=True)]
    fits = len(found) == len(wanted) and all(
        one[0] == other[0] and one[1].is_compatible_with(other[1])
        for one, other in zip(found, wanted, strict=True)
    )
    if not fits:
        raise ValueError(
            f"The reference of {op_name!r} of {os.path.basename(library)!r} must return "
            f"the outputs of `outs`, {_list_of(wanted)}, got {_list_of(found)}."
        )
    return tensors


def _described(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"{len(value)} in a {type(value).__name__}"
    return type(value).__name__


def _list_of(signature: list[tuple[str, Shape]]) -> str:
    return "[" + ", ".join(f"{dtype} {shape}" for dtype, shape in signature) + "]"


def _without_reference(library: str, op_name: str, outs: object) -> str:
    file = os.path.basename(library)
    return (
        f"{op_name!r} of {library!r} (outs: {outs}) builds a graph of Poplar, which does "
        "not run on a simulated IPU. Write its function with TensorFlow and register it "
        "before the program is built:\n"
        f"    ipufeed.ops.references.register({file!r}, {op_name!r}, forward=f)\n"
        "where f(inputs, attributes, outs) returns a list of tensors; or put that line in "
        "a file and run `python -m ipufeed.run --references FILE program.py`."
    )
