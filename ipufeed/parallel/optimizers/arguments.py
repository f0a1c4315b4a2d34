"""Arguments that the optimizers of TensorFlow 1, those of Keras and the pipelines share.

The dtype of accumulators:

    np.float32, tf.float32, "float32"      the same for all
    lambda variable: ...                   a function of a variable, or of a tensor
    None                                   that of each variable or tensor

NumPy's types are callable, as functions are, so types are recognised first.
"""

from __future__ import annotations

import contextlib
import enum
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import handle_data_util

from ipufeed.checks import (
    as_member,
    as_number,
    check_flag,
    check_flags,
    check_name,
    dtype_or_none,
)
from ipufeed.tf_types import DType, GradAndVar, Operation, Tensor, Variable

# A tf.DType, a function of a variable or tensor that returns a dtype, or None.
AccumulatorDType = DType | Callable[[Any], DType] | None


class GradientAccumulationReductionMethod(enum.Enum):
    """How the gradients of several mini-batches are reduced to one.

    SUM: their sum. MEAN: the sum of each divided by their number. RUNNING_MEAN: the mean of
    those so far, which does not overflow where the sum would.

    Source: Graphcore's enumeration of this name.
    """

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(cls, reduction_method: object) -> GradientAccumulationReductionMethod:
        """Returns the method, given as a member or by its name in any case.

        Raises:
            ValueError: It is neither.
        """
        return as_member(cls, reduction_method)


def as_pairs(grads_and_vars: object) -> list[GradAndVar]:
    """Returns what an optimizer is to apply, such as a zip, as a list.

    Raises:
        TypeError: It is not pairs of a gradient, or None, and a variable.
    """
    must = (
        "`grads_and_vars` must be pairs of a gradient and a variable, as of "
        "`compute_gradients`, got"
    )
    # A tensor has a dtype, and can be iterated in eager mode.
    if not isinstance(grads_and_vars, Iterable) or hasattr(grads_and_vars, "dtype"):
        raise TypeError(f"{must} {_named(grads_and_vars)}.")
    pairs = list(grads_and_vars)
    for place, each in enumerate(pairs):
        if not isinstance(each, (list, tuple)) or len(each) != 2:
            raise TypeError(f"{must} {_named(each)} at place {place}.")
    return pairs


def _named(value: object) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"


class GradientMapping:
    """The checked gradient_mapping_function of an optimizer.

    Args:
        function: Takes a gradient and its variable, and returns the gradient to use. It is
            not called for variables without a gradient.

    Raises:
        TypeError: The function is not callable.
    """

    def __init__(self, function: Callable[[Tensor, Variable], Tensor]) -> None:
        if not callable(function):
            raise TypeError(
                "`gradient_mapping_function` must be a function of a gradient and its "
                f"variable, got {type(function).__name__}."
            )
        self._function = function

    def __call__(self, pairs: Iterable[GradAndVar]) -> list[GradAndVar]:
        """Maps the gradients of the pairs; a gradient None stays None."""
        return [
            (None if gradient is None else self._function(gradient, variable), variable)
            for gradient, variable in pairs
        ]


def check_wrapper(
    name: object, offload: object = None, sharding: object = False
) -> None:
    """Checks arguments of a wrapper of a Keras optimizer, as those of TensorFlow 1 are.

    Args:
        name: Its name.
        offload: `offload_weight_update_variables`.
        sharding: `replicated_optimizer_state_sharding`.

    Raises:
        TypeError: The name is not a str, or another one not a bool.
    """
    check_name(name)
    check_flag("offload_weight_update_variables", offload, or_none=True)
    check_flags(replicated_optimizer_state_sharding=sharding)


def check_adaptive(
    epsilon: object = None,
    flags: Mapping[str, object] | None = None,
    numbers: Mapping[str, object] | None = None,
    dtypes: Mapping[str, object] | None = None,
) -> None:
    """Checks arguments of an addon: SGD, Adam or LAMB.

    Args:
        epsilon: A number, or a tensor; None: Keras's.
        flags: Bools, by the names of their arguments.
        numbers: Numbers or None, likewise.
        dtypes: Those of states or None, likewise.

    Raises:
        TypeError: One is of another type.
    """
    check_flags(**(flags or {}))
    for name, value in {"epsilon": epsilon, **(numbers or {})}.items():
        if value is not None and not hasattr(value, "dtype"):
            as_number(name, value)
    for name, dtype in (dtypes or {}).items():
        if dtype is not None and dtype_or_none(dtype) is None:
            raise TypeError(
                f"`{name}` must be a dtype such as tf.float32 or None, got "
                f"{_named(dtype)}."
            )


def check_sharded_state(state_sharding: bool, offload_state: bool) -> None:
    """Raises ValueError if the optimizer's state is sharded and not offloaded."""
    if state_sharding and not offload_state:
        raise ValueError(
            "To use replicated_optimizer_state_sharding, optimizer state must be "
            "offloaded by using offload_weight_update_variables."
        )


def check_dtype(given: object, argument: str, of: str = "variable") -> AccumulatorDType:
    """Checks an argument that gives the dtype of accumulators.

    Args:
        given: A dtype, a function, or None.
        argument: Its name, for the error.
        of: The argument of a function: a "variable", whose gradients are accumulated in
            floating point, or a "tensor", of any numeric dtype. Default: "variable".

    Returns:
        A tf.DType, the function, or None.

    Raises:
        TypeError: It is none of these, or the dtype has no sums.
    """
    if given is None or (callable(given) and not isinstance(given, type)):
        return given
    found = dtype_or_none(given)
    if found is not None and _can_be_summed(found, fractions=of == "variable"):
        return found.base_dtype
    kind = "of floating point" if of == "variable" else "of numbers"
    got = type(given).__name__ if found is None else "dtype"
    raise TypeError(
        f"`{argument}` must be None, a tf.DType {kind} such as tf.float32, or a function "
        f"of a {of} that returns one, got {got} {given!r}."
    )


def name_of(checked: AccumulatorDType) -> str | None:
    """Returns the name of a dtype that `check_dtype` has returned; None for a function."""
    return checked.name if isinstance(checked, tf.DType) else None


def _can_be_summed(dtype: DType, fractions: bool) -> bool:
    """Whether tensors of a dtype can be summed; gradients must not be integers."""
    if dtype.is_floating or dtype.is_complex:
        return True
    return bool(dtype.is_integer and not dtype.is_quantized and not fractions)


def dtype_of(
    checked: AccumulatorDType,
    what: Variable | Tensor,
    own: DType,
    argument: str,
    of: str,
) -> DType:
    """Returns the dtype of one variable's or tensor's accumulator.

    Args:
        checked: A result of `check_dtype`.
        what: The variable or the tensor, the argument of a function.
        own: The dtype that None stands for.
        argument: See `check_dtype`.
        of: Likewise.

    Raises:
        TypeError: The function has not returned a dtype.
    """
    found = check_dtype(checked(what), argument, of) if callable(checked) else checked
    return own if found is None else found


@contextlib.contextmanager
def names_the_cast(pairs: list[GradAndVar], argument: str) -> Iterator[None]:
    """Refuses an optimizer that, in the body of `with`, casts no gradients back.

    TensorFlow builds some of these ops; compiling them fails without naming the variable.

    Args:
        pairs: The gradients that the body applies, some of which may be None, and their
            variables.
        argument: The argument that made the dtypes differ.

    Raises:
        TypeError: An op that updates a variable has another dtype than the variable.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    first = 0 if graph is None else len(graph.get_operations())
    differ = [
        (gradient, variable)
        for gradient, variable in pairs
        if gradient is not None and gradient.dtype != _as_tf(variable.dtype)
    ]
    try:
        yield
    except (TypeError, ValueError) as error:
        if differ:
            raise TypeError(_no_cast(*differ[0], argument)) from error
        raise
    if graph is None or not differ:
        return
    applied = [op for op in graph.get_operations()[first:] if _applies_another(op)]
    if applied:
        raise TypeError(_no_cast(*differ[0], argument))


def _applies_another(op: Operation) -> bool:
    """Whether an op updates a variable with gradients of another dtype."""
    if not op.type.startswith(("ResourceApply", "ResourceSparseApply")):
        return False
    known = handle_data_util.get_resource_handle_data(op.inputs[0]).shape_and_type
    return bool(known and known[0].dtype != op.get_attr("T").as_datatype_enum)


def _no_cast(gradient: Tensor, variable: Variable, argument: str) -> str:
    """Returns the message on a gradient that must be cast."""
    return (
        f"The optimizer gets gradients of {gradient.dtype.name}, from `{argument}`, and "
        f"cannot apply them to the variable {variable.name} of "
        f"{_as_tf(variable.dtype).name}. Cast them back: wrap it in "
        "MapGradientOptimizerInvertedChaining(optimizer, lambda gradient, variable: "
        f"tf.cast(gradient, variable.dtype)). Or leave `{argument}` out."
    )


def _as_tf(dtype: DType | str) -> DType:
    """Returns a variable's dtype as a tf.DType; Keras may have it as a string."""
    return tf.as_dtype(dtype).base_dtype
