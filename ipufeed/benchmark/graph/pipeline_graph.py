"""Takes a dataset apart into stages, and makes datasets of an edited copy of its graph.

    PipelineGraph.of(dataset)                    the stages that training runs
    graph.steps                                  in order, the sources first
    graph.dataset(edits, node)                   any stage of an edited graph as a dataset

The graph is the one that tf.data's rewrites work on, with placeholders for what the
functions captured; ipufeed/cc/data/dataset_graph_op.cc runs an edited copy. The user's
Python functions are neither called nor traced again, and the given dataset is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipufeed import _native
from ipufeed.tf_types import Dataset, GraphDef, NodeDef, Spec, Tensor

_DATASET_OP = re.compile(r"Dataset(V\d+)?$")
_AUTOMATIC = re.compile(r"(\w*Dataset(V\d+)?):\d+")
# Holds options for the dataset below it, whose iterator it returns.
OPTIONS_OP = "OptionsDataset"


@dataclass(frozen=True)
class Step:
    """One dataset op of a pipeline: a stage, if it is reported.

    Attributes:
        node: Name of its node in the graph.
        op: TensorFlow's op.
        inputs: Nodes of the stages that it reads, in order.
        name: The user's `name=`, or None.
        label: The same, or the name that tf.data generated.
        functions: Names of the functions that it calls, by attribute.
    """

    node: str
    op: str
    inputs: tuple[str, ...]
    name: str | None
    label: str | None
    functions: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The op without `Dataset` and version: `ParallelMap`, `TFRecord`."""
        return _DATASET_OP.sub("", self.op) or self.op


class PipelineGraph:
    """The graph of a dataset that was made eagerly.

    Args:
        dataset: The dataset; it keeps the resources of the graph alive.
        variant: Variant tensor of the dataset that `graph` describes.
        graph: Its GraphDef. Copy it before an edit.
        root: Node of the last stage.
    """

    def __init__(
        self, dataset: Dataset, variant: Tensor, graph: GraphDef, root: str
    ) -> None:
        self._dataset = dataset
        self._variant = variant
        self.graph = graph
        self.root = root
        self.steps = _find_steps(graph, root)

    @classmethod
    def of(cls, dataset: Dataset, *, rewritten: bool = True) -> PipelineGraph:
        """Returns the graph of `dataset`.

        Args:
            dataset: Made eagerly: a dataset of a tf.Graph has no values to run.
            rewritten: Whether to apply tf.data's rewrites, as training does, so that stages
                are fused and injected. False: the stages as written.

        Raises:
            tf.errors.OpError: A stage cannot be described as a graph.
        """
        import tensorflow as tf

        with tf.device("/CPU:0"):
            variant, text, root = _native.load().ipufeed_dataset_graph(
                dataset._variant_tensor, rewrite=rewritten
            )
        graph = tf.compat.v1.GraphDef.FromString(text.numpy())
        return cls(dataset, variant, graph, root.numpy().decode())

    def dataset(self, graph: GraphDef, node: str, spec: Spec = None) -> Dataset:
        """Returns a node of an edited graph as a dataset, with this dataset's options.

        Args:
            graph: A changed copy of `self.graph`.
            node: One of its nodes.
            spec: Structure of its elements. Default: that of the whole dataset.

        Raises:
            tf.errors.OpError: The graph does not run.
        """
        import tensorflow as tf
        from tensorflow.python.data.ops import dataset_ops

        with tf.device("/CPU:0"):
            variant = _native.load().ipufeed_dataset_from_graph(
                self._variant, graph.SerializeToString(), node
            )
        spec = self._dataset.element_spec if spec is None else spec
        made: Dataset = dataset_ops._VariantDataset(variant, spec)
        return made

    def without_rewrites(
        self, graph: GraphDef, node: str, spec: Spec = None
    ) -> Dataset:
        """Returns the same as `dataset`, with tf.data's rewrites off: `graph` has them."""
        options = _frozen_options(self._dataset)
        return self.dataset(graph, node, spec).with_options(options)

    def with_options(self, graph: GraphDef, node: str) -> Dataset:
        """Returns the same as `dataset`, with tf.data's rewrites as the user set them."""
        return self.dataset(graph, node).with_options(self._dataset._options_attr)

    def spec_of(self, node: str) -> Spec | None:
        """Returns the flat structure of a node's elements; None if it is unknown."""
        import tensorflow as tf

        step = find_node(self.graph, node)
        key = types_key(step)
        if key is None:
            return None
        dtypes = [tf.as_dtype(number) for number in step.attr[key].list.type]
        if any(dtype in (tf.variant, tf.resource) for dtype in dtypes):
            return None
        return tuple(
            tf.TensorSpec(tf.TensorShape(shape), dtype)
            for shape, dtype in zip(
                step.attr["output_shapes"].list.shape, dtypes, strict=True
            )
        )


def _find_steps(graph: GraphDef, root: str) -> list[Step]:
    """Returns the stages below `root`, each after its inputs."""
    nodes = {node.name: node for node in graph.node}
    steps: dict[str, Step] = {}
    # An explicit stack: a pipeline can be deeper than Python's recursion limit.
    stack = [(skip_options(nodes, root), False)]
    while stack:
        name, ready = stack.pop()
        if name in steps:
            continue
        inputs = _dataset_inputs(nodes, name)
        if ready:
            steps[name] = step_of(nodes[name], inputs)
            continue
        stack.append((name, True))
        stack += [(each, False) for each in reversed(inputs)]
    return list(steps.values())


def _dataset_inputs(nodes: Mapping[str, NodeDef], name: str) -> list[str]:
    inputs = map(node_name, nodes[name].input)
    return [
        skip_options(nodes, each)
        for each in inputs
        if each in nodes and is_dataset(nodes[each].op)
    ]


def skip_options(nodes: Mapping[str, NodeDef], name: str) -> str:
    """Returns the first node at or below `name` that is not an options node."""
    while name in nodes and nodes[name].op == OPTIONS_OP:
        name = node_name(nodes[name].input[0])
    return name


def is_dataset(op: str) -> bool:
    """Returns whether an op makes a dataset."""
    return bool(_DATASET_OP.search(op))


def step_of(node: NodeDef, inputs: list[str]) -> Step:
    """Returns a node as a stage with the given inputs."""
    functions = {
        name: value.func.name
        for name, value in node.attr.items()
        # The map after a tf.data service's dataset calls its uncompress_fn.
        if value.WhichOneof("value") == "func" and name != "uncompress_fn"
    }
    label = _label_of(node)
    return Step(node.name, node.op, tuple(inputs), _user_name(label), label, functions)


def _user_name(label: str | None) -> str | None:
    """Returns the user's name in a label, or those of the stages that tf.data fused."""
    if label is None or label.startswith("inject/"):
        return None
    fused = re.fullmatch(r"fused\((.*)\)", label)
    parts = fused[1].split(",") if fused else [label]
    return " + ".join(p for p in parts if not _AUTOMATIC.fullmatch(p)) or None


def _label_of(node: NodeDef) -> str | None:
    """Returns the name in a node's metadata: the user's, or a generated `MapDataset:3`."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.framework import dataset_metadata_pb2

    if "metadata" not in node.attr:
        return None
    metadata = dataset_metadata_pb2.Metadata()
    try:
        metadata.ParseFromString(node.attr["metadata"].s)
    except DecodeError:
        return None
    return str(metadata.name.decode("utf-8", "replace")) or None


def node_name(text: str) -> str:
    """Returns the node of an input such as `^node` or `node:0`."""
    return text.removeprefix("^").split(":", 1)[0]


def find_node(graph: GraphDef, name: str) -> NodeDef:
    """Returns the node with that name."""
    return next(node for node in graph.node if node.name == name)


def types_key(node: NodeDef) -> str | None:
    """Returns the attribute with the dtypes of a node's elements; None without shapes."""
    for name in ("output_types", "Toutput_types"):
        if name in node.attr and "output_shapes" in node.attr:
            return name
    return None


def _frozen_options(dataset: Dataset) -> Any:
    """Returns the options of `dataset` with all of tf.data's rewrites off."""
    import tensorflow as tf

    options = tf.data.Options().merge(dataset._options_attr)
    # A new object: merge() keeps a reference to the dataset's own.
    rewrites = tf.data.experimental.OptimizationOptions()
    for name in type(rewrites).__dict__:
        if isinstance(getattr(type(rewrites), name), property):
            setattr(rewrites, name, False)
    options.experimental_optimization = rewrites
    return options
