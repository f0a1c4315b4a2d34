"""Users' operations: functions of CPU libraries, and references of Poplar libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.errors import RefusedError
from ipufeed.ops import host_calls, references
from ipufeed.ops.codelets.expression import (
    codelet_expression_op as codelet_expression_op,
)
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
        RefusedError: There is no reference; the message has the line that registers one.
        ValueError: The attributes are not a str, or the reference has other outputs.
    """
    import tensorflow as tf

    del gp_path
    _check_attributes(attributes, gradient_attributes)
    inputs = [tf.convert_to_tensor(each) for each in inputs]
    types, shapes = _signature(outs)
    reference = references.find(library_path, op_name)
    if reference is None:
        raise RefusedError(_without_reference(library_path, op_name, outs))

    def forward(values: list[Tensor]) -> list[Tensor]:
        results = reference.forward(list(values), attributes, outs)
        return _checked(results, types, shapes, library_path, op_name)

    given = reference.gradient
    with tf.name_scope(name):
        if given is None:
            return forward(_without_gradients(inputs, inputs_with_gradients))

        def gradient(
            dys: list[Tensor], outputs: list[Tensor], index: int | None
        ) -> list[Tensor]:
            return list(given(dys, outputs, inputs, gradient_attributes, index))

        return _with_gradient(
            inputs, forward, gradient, separate_gradients, inputs_with_gradients
        )


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

    docs/host.md has the interface of the library. Its code runs in this process.

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
        ValueError: The attributes are not a str.
        tf.errors.NotFoundError: There is no such library, or no such function in it.
        tf.errors.InternalError: The library has another level of the interface.
    """
    import tensorflow as tf

    _check_attributes(attributes, gradient_attributes)
    inputs = [tf.convert_to_tensor(each) for each in inputs]
    types, shapes = _signature(outs)
    signature = list(zip(types, shapes, strict=True))
    path = os.path.abspath(library_path)

    def call(
        values: list[Tensor],
        outputs: list[tuple[DType, Shape]],
        symbol: str,
        attributes: str | None,
    ) -> list[Tensor]:
        text = "\0".join(
            (path, symbol, name, attributes or "", host_calls.file_hash(path))
        )
        return host_calls.call("library", text, values, outputs)

    if not signature:
        call(inputs, [], op_name, attributes)
        return host_calls.last_operation()

    def forward(values: list[Tensor]) -> list[Tensor]:
        return call(list(values), signature, op_name, attributes)

    def gradient(
        dys: list[Tensor], outputs: list[Tensor], index: int | None
    ) -> list[Tensor]:
        chosen = _chosen(inputs, inputs_with_gradients) if index is None else [index]
        gives = [(inputs[each].dtype, inputs[each].shape) for each in chosen]
        found = call(
            [*dys, *outputs, *inputs], gives, f"{op_name}_grad", gradient_attributes
        )
        if index is not None:
            return found
        return [
            found[chosen.index(each)] if each in chosen else None
            for each in range(len(inputs))
        ]

    return _with_gradient(
        inputs, forward, gradient, separate_gradients, inputs_with_gradients
    )


def _check_attributes(attributes: object, gradient_attributes: object) -> None:
    for which, value in (
        ("attributes", attributes),
        ("gradient_attributes", gradient_attributes),
    ):
        if value is not None and not isinstance(value, str):
            raise ValueError(
                f"Expected {which} to be a 'str' type, but was {type(value)}."
            )


def _signature(outs: dict[str, Any] | None) -> tuple[list[DType], list[Shape]]:
    import tensorflow as tf

    outs = outs or {"output_types": [], "output_shapes": []}
    types = [tf.as_dtype(each) for each in outs["output_types"]]
    shapes = [tf.TensorShape(each) for each in outs["output_shapes"]]
    if len(types) != len(shapes):
        raise ValueError(
            "`outs` must have as many output_shapes as output_types, got "
            f"{len(shapes)} and {len(types)}."
        )
    return types, shapes


def _chosen(inputs: list[Tensor], inputs_with_gradients: list[int] | None) -> list[int]:
    if inputs_with_gradients is None:
        return list(range(len(inputs)))
    return list(inputs_with_gradients)


def _without_gradients(inputs: list[Tensor], wanted: list[int] | None) -> list[Tensor]:
    import tensorflow as tf

    chosen = _chosen(inputs, wanted)
    return [
        each if number in chosen else tf.stop_gradient(each)
        for number, each in enumerate(inputs)
    ]


def _with_gradient(
    inputs: list[Tensor],
    forward: Callable[[list[Tensor]], list[Tensor]],
    gradient: Callable[[list[Tensor], list[Tensor], int | None], list[Tensor]],
    separate: bool,
    wanted: list[int] | None,
) -> list[Tensor]:
    """Returns the outputs of `forward`, with `gradient` as its gradient."""
    import tensorflow as tf

    chosen = _chosen(inputs, wanted)

    def run(*values: Tensor) -> Nest:
        outputs = forward(list(values))

        def back(*dys: Tensor) -> list[Tensor]:
            if not chosen:
                return [None] * len(inputs)
            if separate:
                found = {each: gradient(list(dys), outputs, each)[0] for each in chosen}
            else:
                given = gradient(list(dys), outputs, None)
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
    import tensorflow as tf

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
