"""The serialised graph of a dataset, node by node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipufeed.python_ops import PYTHON_OPS
from ipufeed.tf_types import Dataset


def graph_nodes(dataset: Dataset) -> Iterator[Any]:
    """All NodeDefs, those of its functions included.

    Raises:
        tf.errors.OpError: The pipeline cannot be serialised.
    """
    import tensorflow as tf
    from tensorflow.python.data.ops import options

    if tf.is_symbolic_tensor(dataset._variant_tensor):
        graph_def = dataset._variant_tensor.graph.as_graph_def()
    else:
        serialized = dataset._as_serialized_graph(
            external_state_policy=options.ExternalStatePolicy.IGNORE
        )
        graph_def = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def calls_python(dataset: Dataset) -> bool:
    """Whether a step runs a Python function: from_generator, py_function, numpy_function.

    Raises:
        tf.errors.OpError: The pipeline cannot be serialised.
    """
    return any(node.op in PYTHON_OPS for node in graph_nodes(dataset))
