"""Scopes that set the device and the attributes of ops."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2

from ipufeed.checks import (
    as_int,
    check_text,
    dtype_or_none,
    flags_checked,
    is_int,
)
from ipufeed.device.program.outside_compilation import (
    outside_compilation_scope as outside_compilation_scope,
)
from ipufeed.device.program.sharding import shard_attributes
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.device.system.system import require_usable
from ipufeed.no_effect import no_effect
from ipufeed.queues import interrupt
from ipufeed.tf_types import DType, Graph

MOST_SHARD = 2**31 - 1  # an int32 in the op's attributes
# TensorFlow's attribute for XLA: a serialised xla.FrontendAttributes.
FRONTEND_ATTRIBUTES_NAME = "_XlaFrontendAttributes"


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Places the ops that are built in this scope on an IPU, with resource variables.

        with ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(program)

    Args:
        device: The name of an IPU, `/device:IPU:n`.

    Raises:
        ValueError: It is not an IPU, or one that does not exist. TensorFlow would place
            the ops on the CPU without a warning.
    """
    ordinal = check_device(device)
    interrupt.watch()  # before the first program, whose errors it explains
    with contextlib.ExitStack() as stack:
        if not tf.executing_eagerly():
            v1 = tf.compat.v1
            # The current scope, without a change of names.
            scope = v1.get_variable_scope()
            stack.enter_context(
                v1.variable_scope(scope, use_resource=True, auxiliary_name_scope=False)
            )
        # TensorFlow does not accept all spellings that ordinal_of does.
        stack.enter_context(tf.device(f"/device:IPU:{ordinal}"))
        yield


@contextlib.contextmanager
def graph_entered() -> Iterator[None]:
    """Enters the current version 1 graph: `tf.init_scope` in its functions leads to it.

    TensorFlow's `context.graph_mode()` alone enters no graph, and `tf.init_scope` leads to
    eager mode, whose tensors a function of a graph cannot take.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    with contextlib.ExitStack() as stack:
        if graph is not None and not graph.building_function:
            stack.enter_context(graph.as_default())
        yield


@contextlib.contextmanager
def ipu_jit_scope(ipu_scope: int) -> Iterator[None]:
    """Sets the program that ops belong to, as an attribute of the ops.

    Without `ipu_compiler.compile` and `jit_compile`, ops of different scopes are never in
    one program (docs/programs.md, "Whole graphs"). These two ignore the scope.

    Args:
        ipu_scope: The program's number.
    """
    with _noted("jit_scope", str(ipu_scope)):
        yield


@contextlib.contextmanager
def frontend_attribute(
    attribute_name: str, attribute_value: str, restore_to: str | None = None
) -> Iterator[None]:
    """Adds a frontend attribute to the ops in this scope, and those of outer scopes.

    All of them are in one attribute of the op, FRONTEND_ATTRIBUTES_NAME: a serialised
    xla.FrontendAttributes. XLA's compiler for the CPU ignores them; a warning reports it.

    Args:
        attribute_name: Its name.
        attribute_value: Its value.
        restore_to: The value after the scope, if the attribute was not set before it.
            Default (None): not set.

    Raises:
        TypeError: One of them is not a str.

    Source: Graphcore's scope of this name.
    """
    check_text("attribute_name", attribute_name)
    check_text("attribute_value", attribute_value)
    check_text("restore_to", restore_to, " or None")
    no_effect(
        f"frontend_attribute({attribute_name!r})",
        "it is kept at the operations, and XLA's compiler for the CPU ignores it",
    )
    with _attribute(attribute_name, attribute_value, restore_to):
        yield


@contextlib.contextmanager
def _attribute(name: str, value: str, restore_to: str | None) -> Iterator[None]:
    if tf.executing_eagerly():
        yield
        return
    graph = tf.compat.v1.get_default_graph()
    before = _attributes(graph)
    _set_attributes(graph, before | {name: value})
    try:
        yield
    finally:
        after = _attributes(graph)
        after.pop(name, None)
        if name in before:
            after[name] = before[name]
        elif restore_to is not None:
            after[name] = restore_to
        _set_attributes(graph, after)


def _attributes(graph: Graph) -> dict[str, str]:
    """Returns the current frontend attributes of a graph's scopes."""
    noted = graph._attr_scope_map.get(FRONTEND_ATTRIBUTES_NAME)
    if noted is None:
        return {}
    return dict(xla_data_pb2.FrontendAttributes.FromString(noted.s).map)


def _set_attributes(graph: Graph, attributes: dict[str, str]) -> None:
    if not attributes:
        graph._attr_scope_map.pop(FRONTEND_ATTRIBUTES_NAME, None)
        return
    message = xla_data_pb2.FrontendAttributes(map=attributes)
    noted = message.SerializeToString(deterministic=True)
    graph._attr_scope_map[FRONTEND_ATTRIBUTES_NAME] = attr_value_pb2.AttrValue(s=noted)


@contextlib.contextmanager
def _noted(attribute_name: str, attribute_value: str) -> Iterator[None]:
    note = attr_value_pb2.AttrValue(s=attribute_value.encode())
    with _at_ops({f"_ipufeed_{attribute_name}": note}):
        yield


@contextlib.contextmanager
def _at_ops(attributes: dict[str, Any]) -> Iterator[None]:
    if tf.executing_eagerly():
        yield
        return
    with tf.compat.v1.get_default_graph()._attr_scope(attributes):
        yield


@contextlib.contextmanager
@flags_checked
def stochastic_rounding(override: bool) -> Iterator[None]:
    """Sets stochastic rounding, as an attribute of the ops.

    Args:
        override: Whether to round stochastically. Results are always rounded to nearest:
            True has no effect, with a warning.
    """
    if override:
        no_effect("stochastic_rounding(True)", "it rounds to nearest, as the CPU does")
    value = "THREESTATE_ON" if override else "THREESTATE_OFF"
    with _attribute("STOCHASTIC_ROUNDING", value, "THREESTATE_UNDEFINED"):
        yield


@contextlib.contextmanager
def partials_type(override_type: DType) -> Iterator[None]:
    """Sets the dtype of partial sums, as an attribute of the ops. No effect; it warns.

    Args:
        override_type: tf.float32 or tf.float16, also of NumPy or as a str.

    Raises:
        ValueError: Another dtype.
    """
    names = {tf.float16: "F16", tf.float32: "F32"}
    dtype = dtype_or_none(override_type)
    if dtype not in names:
        raise ValueError(
            "Only support float16, float32, provided "
            f"{getattr(override_type, 'name', override_type)}"
        )
    no_effect(
        "partials_type", "XLA's compiler for the CPU chooses the partial sums' dtype"
    )
    value = names[dtype]
    with _attribute("PARTIALS_TYPE", value, "PRIMITIVE_TYPE_INVALID"):
        yield


@contextlib.contextmanager
def ipu_shard(index: int | Iterable[int]) -> Iterator[None]:
    """Sets the IPU of the device for ops, as an attribute (see the module `sharding`).

    Gradients are on the IPUs of their ops. The simulator computes all of it together.

    Args:
        index: One IPU's index in the virtual device, or one for each output, as a list,
            a range, or an array. Integers of Python or NumPy.

    Raises:
        TypeError: It is not an integer, nor several of them.
        ValueError: An index is negative, or 2^31 or more, or there is none.
    """
    # An int first: an array without dimensions has __iter__, which fails. That of bytes
    # gives numbers, and that of a tensor of a graph an error of its own.
    alone = (str, bytes, dict, tf.Tensor)
    if is_int(index) or isinstance(index, alone) or not isinstance(index, Iterable):
        indices = [as_int("index", index)]
    else:
        indices = [as_int("index", one) for one in index]
    if not indices:
        raise ValueError("`index` must name at least one shard, got none.")
    for one in indices:
        if one < 0:
            raise ValueError(f"The shard index must be at least 0, got {one}.")
        if one > MOST_SHARD:
            raise ValueError(
                f"The shard index must be at most {MOST_SHARD}, got {one}."
            )
    with _at_ops(shard_attributes(indices)):
        yield


def check_device(device: str) -> int:
    """Returns the number of a usable IPU.

    Raises:
        DeviceOrdinalError: (a ValueError) It is not an IPU, or one that does not exist.
    """
    ordinal = ordinal_of(device)
    require_usable(ordinal)
    return ordinal
