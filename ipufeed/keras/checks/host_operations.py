"""Refuses operations of layers that a compiled program cannot contain, by the layer's name.

Such as a look-up in a table (StringLookup), a hash of a text, or tf.py_function. The check
is made when a program has been traced, before it is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

import tensorflow as tf
from tensorflow.python.framework import kernels

from ipufeed.device.program.sharding import called_graphs
from ipufeed.errors import UnsupportedElementError
from ipufeed.python_ops import PYTHON_OPS
from ipufeed.tf_types import (
    Graph,
    KerasLayer,
    KerasModel,
    Nest,
    Operation,
    Spec,
)

# Layers that take texts, by the names of their classes in both Keras.
OF_TEXTS = frozenset({"Hashing", "HashedCrossing", "StringLookup", "TextVectorization"})
TABLES = re.compile("LookupTable|HashTable")
# Compiled without a kernel: control flow, arguments, and what ipufeed itself compiles.
WITHOUT_KERNEL = re.compile(
    "Ipufeed|_Arg$|_Retval$|NoOp$|Placeholder|.*PartitionedCall$|(Stateless)?(If|While|Case)$"
)
INTO_DATASET = "Put it into the dataset: `dataset.map(lambda x, y: (layer(x), y))`."


def check_operations(model: KerasModel, graph: Graph, results: Nest = None) -> None:
    """Raises ValueError if a program has an operation that cannot be compiled.

    Args:
        model: The Keras model.
        graph: The graph of the program, or of a stage of it, which is being traced.
        results: Its results.
    """
    layers = {
        each.name: each
        for each in model._flatten_layers()
        if not hasattr(each, "predict_step")
    }
    ends = [each.op for each in _tensors(results)]
    live = list(_live(graph, ends))
    # Once for each type: TensorFlow looks through all kernels, 0.2 ms for a type.
    reasons = {kind: _reason(kind) for kind in {op.type for op in live}}
    found = [(op, why) for op in live if (why := reasons[op.type])]
    for op, why in sorted(found, key=_position):
        layer = _layer_of(op, layers)
        if layer is not None:
            _refuse(
                model, op, f"The layer `{layer.name}` ({type(layer).__name__})", why
            )
        if why != _NO_KERNEL:  # else the compiler decides
            _refuse(model, op, "A function", why)


def check_texts(model: KerasModel, element_spec: Spec) -> None:
    """Raises UnsupportedElementError if the data contain texts."""
    specs = tf.nest.flatten(element_spec)
    found = [i for i, each in enumerate(specs) if _is_text(each)]
    if found:
        what = f"Component {found[0]} of the data of the model `{model.name}`"
        refuse_texts(model, what, "type string")


def refuse_texts(model: KerasModel, what: str, kind: str) -> NoReturn:
    """Raises UnsupportedElementError for texts in the data.

    Args:
        model: The Keras model: the error names its layers that take texts.
        what: The data.
        kind: The type of these.
    """
    layers = [
        each for each in model._flatten_layers() if type(each).__name__ in OF_TEXTS
    ]
    inner = {
        id(each)
        for layer in layers
        for each in layer._flatten_layers(include_self=False)
    }
    names = [
        f"`{each.name}` ({type(each).__name__})"
        for each in layers
        if id(each) not in inner
    ]
    taken, way = "", " and a layer such as StringLookup or TextVectorization"
    if names:
        taken = f", for its layers {', '.join(names)}"
        way = ", with these layers taken out of the model"
    raise UnsupportedElementError(
        f"{what} is of {kind}{taken}: an infeed queue carries numbers only, and a "
        "compiled program has no texts. Convert them to numbers in the dataset: "
        f"`dataset.map(lambda x, y: (layer(x), y))`{way}."
    )


_NO_KERNEL = "XLA has no kernel for it"


def _position(found: tuple[Operation, str]) -> int:
    """Returns the place of an op in its graph: the first one is the cause."""
    op, _ = found
    return int(op.graph.get_operations().index(op))


def _reason(kind: str) -> str | None:
    """Returns why operations of a type cannot be compiled; None if they can be."""
    if kind in PYTHON_OPS:
        return "it calls Python (tf.py_function, tf.numpy_function)"
    if TABLES.search(kind):
        return "it uses a table on the host"
    if WITHOUT_KERNEL.match(kind) or _compiles(kind):
        return None
    return _NO_KERNEL


def _compiles(kind: str) -> bool:
    """Whether XLA has a kernel for a type of op, or its kernels are unknown yet."""
    return _has_kernel(kind) or not _has_kernel("MatMul")


# Types of ops that have been found to have one; TensorFlow parses all kernels for each.
_with_kernel: set[str] = set()


def _has_kernel(kind: str) -> bool:
    if kind not in _with_kernel:
        found = kernels.get_registered_kernels_for_op(kind).kernel
        if any(each.device_type == "XLA_CPU_JIT" for each in found):
            _with_kernel.add(kind)
    return kind in _with_kernel


def _refuse(model: KerasModel, op: Operation, place: str, why: str) -> None:
    way = INTO_DATASET
    if op.type.endswith("CountSparseOutput"):
        way = "Make it with `sparse=False`."
    raise ValueError(
        f"{place} of the model `{model.name}` has the operation {op.type} ({op.name}), "
        f"which a compiled program cannot contain: {why}. {way}"
    )


def _layer_of(op: Operation, layers: dict[str, KerasLayer]) -> KerasLayer | None:
    """Returns the outermost layer in an op's name, whose parts TensorFlow numbers."""
    for part in op.name.split("/")[:-1]:
        for name in (part, re.sub(r"_\d+$", "", part)):
            if name in layers:
                return layers[name]
    return None


def _live(graph: Graph, ends: Iterable[Operation]) -> Iterator[Operation]:
    """Yields the ops of a program that have a consumer or an effect.

    XLA compiles no others. The ops of the functions that they call are included.
    """
    stateful = [op for op in graph.get_operations() if op.op_def.is_stateful]
    left, seen = [*ends, *stateful], set()
    while left:
        op = left.pop()
        if op in seen:
            continue
        seen.add(op)
        yield op
        left += [each.op for each in op.inputs] + op.control_inputs
        for inner in called_graphs(op):
            left += [each.op for each in inner.outputs]
            left += inner.control_outputs


def _tensors(results: Nest) -> Nest:
    return [each for each in tf.nest.flatten(results) if tf.is_tensor(each)]


def _is_text(spec: Spec) -> bool:
    return getattr(getattr(spec, "dtype", None), "name", "") == "string"
