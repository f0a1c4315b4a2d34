"""Protocols of TensorFlow's objects, with the members used here: it ships no types.

mypy checks with them what one package asks of another's dataset. Private
names are those with which TensorFlow itself reads a dataset's graph.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
)
from typing import Any, Protocol


class Dataset(Protocol):
    """A tf.data.Dataset, of TensorFlow 1 or 2."""

    @property
    def element_spec(self) -> Any:
        """The nest of the elements' specs."""

    @property
    def _variant_tensor(self) -> Any:
        """The tensor that stands for the dataset in its graph."""

    @property
    def _dataset(self) -> Dataset:
        """The dataset in an adapter of TensorFlow 1."""

    @property
    def _options_attr(self) -> Any:
        """Returns the options that were set on it."""

    @property
    def _flat_structure(self) -> dict[str, Any]:
        """The types and shapes of its elements, as attributes of an op."""

    def __iter__(self) -> Iterator[Any]:
        """Starts the dataset."""

    def _inputs(self) -> list[Any]:
        """Returns the datasets that it reads."""

    def _functions(self) -> list[Any]:
        """Returns the wrappers of the functions that it calls."""

    def _as_serialized_graph(self, **options: Any) -> Any:
        """Returns its graph, with what it captures."""

    def _apply_debug_options(self) -> Dataset:
        """Returns it with the options of debug mode."""

    def apply(self, transformation: Callable[[Any], Any]) -> Dataset:
        """Returns the dataset that a function makes of it."""

    def batch(self, size: int, *, drop_remainder: bool = False) -> Dataset:
        """Returns a dataset of batches of its elements."""

    def cardinality(self) -> Any:
        """Returns the number of elements; a negative one: infinite, or unknown."""

    def map(self, function: Callable[..., Any], **options: Any) -> Dataset:
        """Returns a dataset of a function's results for its elements."""

    def options(self) -> Any:
        """Returns its tf.data.Options."""

    def prefetch(self, size: int) -> Dataset:
        """Returns it with a buffer of elements."""

    def repeat(self, count: int | None = None) -> Dataset:
        """Returns a dataset that repeats it, `count` times or without an end."""

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """Folds its elements into a state."""

    def take(self, count: int) -> Dataset:
        """Returns a dataset of its first elements."""

    def with_options(self, options: Any) -> Dataset:
        """Returns it with other options."""


class SessionHook(Protocol):
    """A tf.compat.v1.train.SessionRunHook."""

    def begin(self) -> None:
        """Called when the graph is complete but for the hook's own ops."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called with each new session."""

    def before_run(self, run_context: Any) -> Any:
        """Returns what the run is to fetch for the hook."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Called with what was fetched."""

    def end(self, session: Any) -> None:
        """Called at the end, before the session is closed."""


# Any: TensorFlow ships no types, and these are passed on to TensorFlow as they are.
Tensor = Any  # a tf.Tensor
Operation = Any  # a tf.Operation
Nest = Any  # a nest of tensors, or of whatever stands for tensors
Spec = Any  # a nest of tf.TypeSpec
FuncGraph = Any  # a FuncGraph, or a ConcreteFunction of one
NestFunction = Callable[..., Nest]  # a function of tensors
Function = Any  # a tf.function
Variable = Any  # a tf.Variable, or a Keras variable
DType = Any  # a tf.DType
Session = Any  # a tf.compat.v1.Session
Graph = Any  # a tf.Graph, or a FuncGraph
ControlContext = Any  # of a version 1 loop or conditional
TensorSpec = Any  # a tf.TensorSpec
TensorLike = Any  # a tensor, or a value that tf.convert_to_tensor accepts
ConfigProto = Any  # a tf.compat.v1.ConfigProto
Shape = Any  # a tf.TensorShape, or a list of dimensions
Optimizer = Any  # an optimizer of TensorFlow 1 or of Keras
GradAndVar = tuple[Any, Any]  # a gradient, or None, and its Variable
KerasModel = Any  # a model of Keras 3, or of tf_keras
KerasLayer = Any  # a layer of Keras 3, or of tf_keras
Config = dict[str, Any]  # the configuration of a Keras object, for JSON

# Protocol buffers of a serialised graph, with the fields that are read or edited here.


class _Named(Protocol):
    name: str


class _AttrList(Protocol):
    func: Iterable[_Named]
    shape: Iterable[Any]
    type: Iterable[int]


class AttrValue(Protocol):
    """An AttrValue; `WhichOneof("value")` names the field that is set."""

    func: _Named
    i: int
    list: _AttrList
    s: bytes
    tensor: Any
    type: int

    def CopyFrom(self, other: AttrValue) -> None: ...  # noqa: D102, N802
    def WhichOneof(self, group: str) -> str | None: ...  # noqa: D102, N802


class NodeDef(Protocol):
    """A NodeDef: `name = op(input, attr)`."""

    name: str
    op: str
    input: MutableSequence[str]
    attr: Mapping[str, AttrValue]


class _Nodes(Protocol):
    def __iter__(self) -> Iterator[NodeDef]: ...
    def add(self, *, name: str = "", op: str = "") -> NodeDef: ...


class FunctionDef(Protocol):
    """A FunctionDef: a signature, nodes, and the outputs that it returns."""

    node_def: _Nodes
    ret: MutableMapping[str, str]
    signature: Any

    def CopyFrom(self, other: FunctionDef) -> None: ...  # noqa: D102, N802


class _Functions(Protocol):
    def __iter__(self) -> Iterator[FunctionDef]: ...
    def add(self) -> FunctionDef: ...


class _Library(Protocol):
    function: _Functions


class GraphDef(Protocol):
    """A GraphDef: nodes, and the library of functions that they call."""

    library: _Library
    node: _Nodes

    def SerializeToString(self) -> bytes: ...  # noqa: D102, N802
