"""A dataset taken apart into steps, and put together again with some of them changed.

    PipelineGraph.of(dataset)                    the steps that training runs
    graph.steps                                  from the sources to the last one
    graph.dataset(edits, node)                   any step of an edited graph as a dataset

The graph is the one that tf.data's own rewrites work on, with what the functions have
captured as placeholders; ipufeed/cc/data/dataset_graph_op.cc runs an edited one. The user's
Python functions are neither called nor traced again, and the dataset that was given
stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ipufeed import _native
from ipufeed.tf_types import Dataset

_DATASET_OP = re.compile(r"Dataset(V\d+)?$")
_AUTOMATIC = re.compile(r"(\w*Dataset(V\d+)?):\d+")
# Says something of the dataset below it, and gives its very iterator.
OPTIONS_OP = "OptionsDataset"


@dataclass(frozen=True)
class Step:
    """One dataset of a pipeline.

    Attributes:
        node: Name of its node in the graph.
        op: TensorFlow's op.
        inputs: The nodes of the steps that it reads, in order.
        name: The user's `name=`, or None.
        label: That, or the name that tf.data gave it.
        functions: The functions that it calls, by attribute.
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
        dataset: Keeps what the graph stands for alive.
        variant: The dataset that `graph` describes.
        graph: Its GraphDef. Copy it before changing anything.
        root: The node of the last step.
    """

    def __init__(self, dataset: Dataset, variant: Any, graph: Any, root: str) -> None:
        self._dataset = dataset
        self._variant = variant
        self.graph = graph
        self.root = root
        self.steps = find_steps(graph, root)

    @classmethod
    def of(cls, dataset: Dataset, *, rewritten: bool = True) -> PipelineGraph:
        """Takes `dataset` apart.

        Args:
            dataset: Made eagerly: one of a tf.Graph has no values to run.
            rewritten: As training runs it, with fused and injected steps; False for
                the steps as they were written.

        Raises:
            tf.errors.OpError: It has a step that cannot be described as a graph.
        """
        import tensorflow as tf

        with tf.device("/CPU:0"):
            variant, text, root = _native.load().ipufeed_dataset_graph(
                dataset._variant_tensor, rewrite=rewritten
            )
        graph = tf.compat.v1.GraphDef.FromString(text.numpy())
        return cls(dataset, variant, graph, root.numpy().decode())

    def dataset(self, graph: Any, node: str, spec: Any = None) -> Any:
        """The dataset that `node` of an edited `graph` gives, with the options of ours.

        Args:
            graph: A changed copy of `self.graph`.
            node: One of its nodes.
            spec: The structure of its elements. Default: that of the whole dataset.

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
        return dataset_ops._VariantDataset(variant, spec)

    def as_it_is(self, graph: Any, node: str, spec: Any = None) -> Any:
        """Like `dataset`, and tf.data rewrites nothing in it a second time."""
        options = frozen_options(self._dataset)
        return self.dataset(graph, node, spec).with_options(options)

    def with_options(self, graph: Any, node: str) -> Any:
        """Like `dataset`, rewritten as the dataset that was taken apart would be."""
        return self.dataset(graph, node).with_options(self._dataset._options_attr)

    def spec_of(self, node: str) -> Any | None:
        """The flat structure of a node's elements; None where the graph is silent."""
        import tensorflow as tf

        types = types_of(find_node(self.graph, node))
        if types is None:
            return None
        dtypes, shapes = types
        if any(dtype in (tf.variant, tf.resource) for dtype in dtypes):
            return None
        return tuple(
            tf.TensorSpec(shape, dtype)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        )


def find_steps(graph: Any, root: str) -> list[Step]:
    """The steps that `root` needs, each behind its inputs."""
    nodes = {node.name: node for node in graph.node}
    steps: dict[str, Step] = {}
    while nodes[root].op == OPTIONS_OP:
        root = node_name(nodes[root].input[0])
    # An explicit stack: a pipeline may be longer than Python's.
    stack = [(root, False)]
    while stack:
        name, ready = stack.pop()
        if name in steps:
            continue
        inputs = dataset_inputs(nodes, name)
        if ready:
            steps[name] = step_of(nodes[name], inputs)
            continue
        stack.append((name, True))
        stack += [(each, False) for each in reversed(inputs)]
    return list(steps.values())


def dataset_inputs(nodes: dict[str, Any], name: str) -> list[str]:
    """The inputs of a node that are datasets; options are looked through."""
    found = []
    for text in nodes[name].input:
        each = node_name(text)
        if each in nodes and is_dataset(nodes[each].op):
            while nodes[each].op == OPTIONS_OP:
                each = node_name(nodes[each].input[0])
            found.append(each)
    return found


def is_dataset(op: str) -> bool:
    """Whether an op makes a dataset."""
    return bool(_DATASET_OP.search(op))


def step_of(node: Any, inputs: list[str]) -> Step:
    """A node as a step."""
    functions = {
        name: value.func.name
        for name, value in node.attr.items()
        if value.WhichOneof("value") == "func"
    }
    label = label_of(node)
    return Step(node.name, node.op, tuple(inputs), own_name(label), label, functions)


def own_name(label: str | None) -> str | None:
    """What the user has called a step, or the steps that tf.data fused into it."""
    if label is None or label.startswith("inject/"):
        return None
    fused = re.fullmatch(r"fused\((.*)\)", label)
    parts = fused[1].split(",") if fused else [label]
    return " + ".join(p for p in parts if not _AUTOMATIC.fullmatch(p)) or None


def label_of(node: Any) -> str | None:
    """The name in a node's metadata: the user's, or tf.data's own `MapDataset:3`."""
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
    """The node of an input such as `^node` or `node:0`."""
    return text.removeprefix("^").split(":", 1)[0]


def find_node(graph: Any, name: str) -> Any:
    """The node of that name."""
    return next(node for node in graph.node if node.name == name)


def types_of(node: Any) -> tuple[list[Any], list[Any]] | None:
    """Dtypes and shapes of a dataset node's components, or None."""
    import tensorflow as tf

    for name in ("output_types", "Toutput_types"):
        if name in node.attr and "output_shapes" in node.attr:
            return (
                [tf.as_dtype(number) for number in node.attr[name].list.type],
                [
                    tf.TensorShape(shape)
                    for shape in node.attr["output_shapes"].list.shape
                ],
            )
    return None


def frozen_options(dataset: Dataset) -> Any:
    """The options of `dataset` without the rewrites, which its graph has behind it."""
    import tensorflow as tf

    options = tf.data.Options().merge(dataset._options_attr)
    # A new one: what merge() took over belongs to the dataset, and may not be changed.
    rewrites = tf.data.experimental.OptimizationOptions()
    for name in type(rewrites).__dict__:
        if isinstance(getattr(type(rewrites), name), property):
            setattr(rewrites, name, False)
    options.experimental_optimization = rewrites
    return options
