"""The dtype of what is accumulated: one for all, or from a function of each.

    np.float32, tf.float32, "float32"      one for all
    lambda variable: ...                   a function of a variable, or of a tensor
    None                                   the own one of each

NumPy's types can be called, as functions can: it is types that are looked for first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def check_dtype(given: Any, argument: str, of: str = "variable") -> Any:
    """What was given for an argument, with a dtype as a tf.DType.

    Args:
        given: A dtype, a function, or None.
        argument: What the user calls it, for the error.
        of: Of what a function gives it: of a "variable" whose gradients are accumulated,
            which have fractions, or of a "tensor", which is any number. Default:
            "variable".

    Returns:
        A tf.DType, the function, or None.

    Raises:
        TypeError: It is none of these, or a dtype that cannot be summed in.
    """
    import tensorflow as tf

    if given is None or (callable(given) and not isinstance(given, type)):
        return given
    try:
        found = tf.as_dtype(given).base_dtype
    except TypeError:
        found = None
    if found is not None and can_be_summed(found, fractions=of == "variable"):
        return found
    kind = "of floating point" if of == "variable" else "of numbers"
    got = type(given).__name__ if found is None else "dtype"
    raise TypeError(
        f"`{argument}` must be None, a tf.DType {kind} such as tf.float32, or a function "
        f"of a {of} that returns one, got {got} {given!r}."
    )


def can_be_summed(dtype: Any, fractions: bool) -> bool:
    """Whether there are sums of a dtype; of gradients, which have fractions."""
    if dtype.is_floating or dtype.is_complex:
        return True
    return bool(dtype.is_integer and not dtype.is_quantized and not fractions)


def dtype_of(checked: Any, what: Any, own: Any, argument: str, of: str) -> Any:
    """The dtype for one variable or tensor.

    Args:
        checked: What `check_dtype` has returned.
        what: The variable or the tensor, for a function.
        own: The dtype that None stands for.
        argument: See `check_dtype`.
        of: Likewise.

    Raises:
        TypeError: A function has returned something else.
    """
    found = check_dtype(checked(what), argument, of) if callable(checked) else checked
    return own if found is None else found


@contextlib.contextmanager
def names_the_cast(pairs: list[tuple[Any, Any]], argument: str) -> Iterator[None]:
    """Within it an optimizer that applies gradients of another dtype is refused.

    TensorFlow builds some of these ops, and only compiling them fails, without a name.

    Args:
        pairs: Gradients, some of which may be None, and variables.
        argument: What has made the dtypes differ.

    Raises:
        TypeError: An op that updates a variable has another dtype than that.
    """
    import tensorflow as tf

    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    first = 0 if graph is None else len(graph.get_operations())
    differ = [
        (gradient, variable)
        for gradient, variable in pairs
        if gradient is not None and gradient.dtype != as_tf(variable.dtype)
    ]
    try:
        yield
    except (TypeError, ValueError) as error:
        if differ:
            raise TypeError(no_cast(*differ[0], argument)) from error
        raise
    if graph is None or not differ:
        return
    applied = [op for op in graph.get_operations()[first:] if applies_another(op)]
    if applied:
        raise TypeError(no_cast(*differ[0], argument))


def applies_another(op: Any) -> bool:
    """Whether an op updates a variable as if it had another dtype."""
    from tensorflow.python.ops import handle_data_util

    if not op.type.startswith(("ResourceApply", "ResourceSparseApply")):
        return False
    known = handle_data_util.get_resource_handle_data(op.inputs[0]).shape_and_type
    return bool(known and known[0].dtype != op.get_attr("T").as_datatype_enum)


def no_cast(gradient: Any, variable: Any, argument: str) -> str:
    """The error's text on the first gradient that has not been cast."""
    return (
        f"The optimizer gets gradients of {gradient.dtype.name}, from `{argument}`, and "
        f"cannot apply them to the variable {variable.name} of "
        f"{as_tf(variable.dtype).name}. Cast them back: wrap it in "
        "MapGradientOptimizerInvertedChaining(optimizer, lambda gradient, variable: "
        f"tf.cast(gradient, variable.dtype)). Or leave `{argument}` out."
    )


def as_tf(dtype: Any) -> Any:
    """A variable's dtype: of TensorFlow, also where Keras has it as a string."""
    import tensorflow as tf

    return tf.as_dtype(dtype).base_dtype
