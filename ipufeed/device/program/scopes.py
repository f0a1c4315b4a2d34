"""Scopes: where ops go, and what is noted at them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ipufeed.checks import flags_checked
from ipufeed.device.program.outside_compilation import (
    outside_compilation_scope as outside_compilation_scope,
)
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.device.system.system import require_usable
from ipufeed.no_effect import no_effect

# What TensorFlow's compiler reads: a serialised xla.FrontendAttributes.
MOST_SHARD = 2**31 - 1  # an int32 in the op's attributes
FRONTEND_ATTRIBUTES_NAME = "_XlaFrontendAttributes"


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[Any]:
    """Places what is built inside on an IPU, with resource variables.

        with ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(program)

    Args:
        device: The name of an IPU, `/device:IPU:n`.

    Raises:
        ValueError: It is not an IPU, or one that does not exist. TensorFlow itself would
            place the ops on the CPU without a warning.
    """
    import tensorflow as tf

    ordinal = check_device(device)
    with contextlib.ExitStack() as stack:
        if not tf.executing_eagerly():
            v1 = tf.compat.v1
            # The scope that there is, with its names as they are.
            scope = v1.get_variable_scope()
            stack.enter_context(
                v1.variable_scope(scope, use_resource=True, auxiliary_name_scope=False)
            )
        # TensorFlow does not understand all spellings that we do.
        stack.enter_context(tf.device(f"/device:IPU:{ordinal}"))
        yield


@contextlib.contextmanager
def ipu_jit_scope(ipu_scope: int) -> Iterator[None]:
    """Notes at ops which of several programs they belong to.

    Without `ipu_compiler.compile` and `jit_compile` ops of different scopes are never in
    one program (docs/programs.md, "Whole graphs"). What is compiled as one by these stays
    one program.

    Args:
        ipu_scope: The program's number.
    """
    with _noted("jit_scope", str(ipu_scope)):
        yield


@contextlib.contextmanager
def frontend_attribute(
    attribute_name: str, attribute_value: str, restore_to: str | None = None
) -> Iterator[None]:
    """Notes an attribute at all ops that are built inside, and those of the scopes around.

    All of them are in one attribute of the op, FRONTEND_ATTRIBUTES_NAME: a serialised
    xla.FrontendAttributes. XLA's compiler for the CPU ignores them, with a warning.

    Args:
        attribute_name: Its name.
        attribute_value: Its value.
        restore_to: What ops after the scope get if the attribute was not set before it.
            Default (None): nothing.

    Source: Graphcore's scope of this name.
    """
    no_effect(
        f"frontend_attribute({attribute_name!r})",
        "it is kept at the operations, and XLA's compiler for the CPU ignores it",
    )
    with _attribute(attribute_name, attribute_value, restore_to):
        yield


@contextlib.contextmanager
def _attribute(name: str, value: str, restore_to: str | None) -> Iterator[None]:
    import tensorflow as tf

    if tf.executing_eagerly():
        yield
        return
    graph = tf.compat.v1.get_default_graph()
    before = _attributes(graph)
    _set_attributes(graph, before | {name: str(value)})
    try:
        yield
    finally:
        after = _attributes(graph)
        after.pop(name, None)
        if name in before:
            after[name] = before[name]
        elif restore_to is not None:
            after[name] = str(restore_to)
        _set_attributes(graph, after)


def _attributes(graph: Any) -> dict[str, str]:
    """The frontend attributes that ops of a graph get now."""
    from tensorflow.compiler.xla import xla_data_pb2

    noted = graph._attr_scope_map.get(FRONTEND_ATTRIBUTES_NAME)
    if noted is None:
        return {}
    return dict(xla_data_pb2.FrontendAttributes.FromString(noted.s).map)


def _set_attributes(graph: Any, attributes: dict[str, str]) -> None:
    from tensorflow.compiler.xla import xla_data_pb2
    from tensorflow.core.framework import attr_value_pb2

    if not attributes:
        graph._attr_scope_map.pop(FRONTEND_ATTRIBUTES_NAME, None)
        return
    message = xla_data_pb2.FrontendAttributes(map=attributes)
    noted = message.SerializeToString(deterministic=True)
    graph._attr_scope_map[FRONTEND_ATTRIBUTES_NAME] = attr_value_pb2.AttrValue(s=noted)


@contextlib.contextmanager
def _noted(attribute_name: str, attribute_value: str) -> Iterator[None]:
    import tensorflow as tf
    from tensorflow.core.framework import attr_value_pb2

    if tf.executing_eagerly():
        yield
        return
    key = f"_ipufeed_{attribute_name}"
    value = attr_value_pb2.AttrValue(s=str(attribute_value).encode())
    with tf.compat.v1.get_default_graph()._attr_scope({key: value}):
        yield


@contextlib.contextmanager
@flags_checked
def stochastic_rounding(override: bool) -> Iterator[None]:
    """Notes at ops whether they should round stochastically.

    Args:
        override: Whether. Results are rounded to nearest always: True has no effect,
            with a warning.
    """
    if override:
        no_effect("stochastic_rounding(True)", "it rounds to nearest, as the CPU does")
    value = "THREESTATE_ON" if override else "THREESTATE_OFF"
    with _attribute("STOCHASTIC_ROUNDING", value, "THREESTATE_UNDEFINED"):
        yield


@contextlib.contextmanager
def partials_type(override_type: Any) -> Iterator[None]:
    """Notes at ops the dtype of partial sums. No effect, with a warning.

    Args:
        override_type: tf.float32 or tf.float16.

    Raises:
        ValueError: Another dtype.
    """
    import tensorflow as tf

    names = {tf.float16: "F16", tf.float32: "F32"}
    if override_type not in names:
        raise ValueError(
            "Only support float16, float32, provided "
            f"{getattr(override_type, 'name', override_type)}"
        )
    no_effect(
        "partials_type", "XLA's compiler for the CPU chooses the partial sums' dtype"
    )
    value = names[tf.as_dtype(override_type)]
    with _attribute("PARTIALS_TYPE", value, "PRIMITIVE_TYPE_INVALID"):
        yield


@contextlib.contextmanager
def ipu_shard(index: int | list[int] | tuple[int, ...]) -> Iterator[None]:
    """Notes at ops on which IPU of the device they are (ipufeed.device.program.sharding).

    Gradients are where their ops are. The simulator computes all of it in one place.

    Args:
        index: One IPU's index in the virtual device, or one for each output.

    Raises:
        TypeError: It is not an integer, nor a list of them.
        ValueError: An index is negative, or 2^31 or more.
    """
    indices = list(index) if isinstance(index, (list, tuple)) else [index]
    for one in indices:
        if isinstance(one, bool) or not isinstance(one, int):
            raise TypeError(
                f"The shard index must be an int, got {type(one).__name__} {one!r}."
            )
        if one < 0:
            raise ValueError(f"The shard index must be at least 0, got {one}.")
        if one > MOST_SHARD:
            raise ValueError(
                f"The shard index must be at most {MOST_SHARD}, got {one}."
            )
    with _noted("shard", ",".join(map(str, indices))):
        yield


def check_device(device: str) -> int:
    """The number of an IPU that can be used.

    Raises:
        DeviceOrdinalError: (a ValueError) It is not an IPU, or one that does not exist.
    """
    ordinal = ordinal_of(device)
    require_usable(ordinal)
    return ordinal
