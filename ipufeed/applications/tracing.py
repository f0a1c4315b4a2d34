"""Traces a function for an application: its graph, and the role of each of its inputs."""

from __future__ import annotations

import contextlib
import inspect

import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.core.function.polymorphism import function_type
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.eager.polymorphic_function.polymorphic_function import (
    OptionalXlaContext,
)
from tensorflow.python.framework import func_graph
from tensorflow.python.util import nest

from ipufeed.applications.file import Application
from ipufeed.applications.signature import Feed, Role, Signature
from ipufeed.device.program import outside_compilation
from ipufeed.device.program.compiler import checked_inputs, checking_results, name_of
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.errors import DeviceOrdinalError
from ipufeed.queues.chain import MadeNumber, recorded_numbers
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode, IPUOutfeedQueue
from ipufeed.tf_types import FuncGraph, Nest, NestFunction, Tensor

Queue = IPUInfeedQueue | IPUOutfeedQueue

# Roles of the traced function's arguments, as in files.
INPUT, VARIABLE, INFEED, OUTFEED, VALUE, NUMBER = (
    "input",
    "variable",
    "infeed",
    "outfeed",
    "value",
    "number",
)


def trace(
    func: NestFunction, inputs: Nest, name: str
) -> tuple[Application, list[Tensor]]:
    """Traces a function for a file.

    Returns:
        The application, without compiled programs, whose variables are inputs and whose
        captured tensors are those of the surrounding graph; and the variables' handles, in
        the order of the signature.

    Raises:
        TypeError: `func` cannot be called, or `inputs` is not a list or tuple.
        ValueError: The function uses something that a file cannot hold: the host within
            the program, an outfeed of mode LAST, a resource that is not a variable, an
            unknown shape.
    """
    if not callable(func):
        raise TypeError(f"`func` must be a function, got {type(func).__name__}.")
    values = [tf.convert_to_tensor(value) for value in checked_inputs(inputs)]
    names = _input_names(func, len(values))
    specs = [
        tf.TensorSpec(value.shape, value.dtype, argument)
        for value, argument in zip(values, names, strict=True)
    ]
    _refuse_unknown_shapes(specs, "input")
    ordinal = _current_ordinal()
    with recorded_numbers() as numbers:
        graph = _build(func, specs, name, ordinal)
    described = _Description(graph, specs, numbers)
    return described.application(name, ordinal), described.variables


def _input_names(func: NestFunction, count: int) -> list[str]:
    """Returns the names of a function's first parameters, or numbered names."""
    names: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        names = [
            parameter.name
            for parameter in inspect.signature(func).parameters.values()
            if parameter.kind is not parameter.VAR_POSITIONAL
        ]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]


def _refuse_unknown_shapes(specs: list[tf.TensorSpec], what: str) -> None:
    """Raises ValueError if a shape is not fully defined."""
    for index, spec in enumerate(specs):
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"The shape of {what} {index} ('{spec.name}') must be fully defined, got "
                f"{spec.shape}: an application is compiled for one shape."
            )


def _current_ordinal() -> int:
    """Returns the IPU of the scope around the call, else 0."""
    if tf.executing_eagerly():
        names = [context.context().device_name]
    else:
        stack = tf.compat.v1.get_default_graph()._device_function_stack
        names = [scope.display_name for scope in stack.peek_objs()]
    for name in names:
        with contextlib.suppress(DeviceOrdinalError):
            return ordinal_of(name or "")
    return 0


def _build(
    func: NestFunction, specs: list[tf.TensorSpec], name: str, ordinal: int
) -> FuncGraph:
    """Builds the function's graph as for a compiled program."""
    checked = checking_results(func)

    def body(*arguments: Tensor) -> list[Tensor]:
        with OptionalXlaContext(True), tf.device(f"/device:IPU:{ordinal}"):
            results = checked(*arguments)
            return [
                tf.identity(result)
                for result in tf.nest.flatten(results)
                if isinstance(result, (tf.Tensor, tf.Variable))
            ]

    try:
        with outside_compilation.building(traced=True, name=name_of(func)):
            return func_graph.func_graph_from_py_func(
                name, body, tuple(specs), {}, add_control_dependencies=True
            )
    except outside_compilation.NeedsExecutor:
        raise ValueError(
            f"{name} cannot be compiled to a file: it has an outside_compilation_scope, "
            "whose ops run on the host. Take the scope out."
        ) from None


class _Description:
    """Determines the role of each input of a graph.

    Args:
        graph: The FuncGraph.
        specs: Specs of the function's own arguments.
        numbers: Numbers made by host_number while the function was traced.
    """

    def __init__(
        self, graph: FuncGraph, specs: list[tf.TensorSpec], numbers: list[MadeNumber]
    ) -> None:
        self._graph = graph
        self._specs = specs
        self._numbers = {id(made.tensor): made for made in numbers}
        self._known = {
            id(variable.handle): variable
            for variable in (*graph.variables, *_known_variables())
            if hasattr(variable, "handle")
        }
        self.variables: list[Tensor] = []
        self.captured: list[Tensor] = []
        self.inputs = [
            Feed.of(spec.name, INPUT, index, index, spec)
            for index, spec in enumerate(specs)
        ]
        self.infeeds: list[Queue] = []
        self.outfeeds: list[Queue] = []

    def application(self, name: str, ordinal: int) -> Application:
        """Returns the traced function, independent of its Python code."""
        arguments = [(INPUT, index) for index in range(len(self._specs))]
        arguments += [
            self._argument(external, internal)
            for external, internal in self._graph.captures
        ]
        function = _make_function(self._graph)
        outputs = [
            Feed.of(f"output_{index}", "output", index, index, _known_spec(tensor))
            for index, tensor in enumerate(self._graph.outputs)
        ]
        library = _library_of(function)
        return Application(
            name=name,
            ordinal=ordinal,
            library=library.SerializeToString(deterministic=True),
            function=tf.compat.as_str(function.name),
            arguments=arguments,
            signature=Signature(
                tuple(self.inputs),
                tuple(outputs),
                tuple(_streamed_feeds(self.infeeds, INFEED)),
                tuple(_streamed_feeds(self.outfeeds, OUTFEED)),
            ),
            captured=self.captured,
            variables=[],
            pipelined=_is_pipelined(library),
        )

    def _argument(self, external: Tensor, internal: Tensor) -> Role:
        """Returns the role of a captured tensor: (kind, number)."""
        made = self._numbers.get(id(external))
        if made is not None:
            return self._queue(made.queue) if made.queue else (NUMBER, made.number)
        if external.dtype == tf.resource:
            return self._variable(external)
        if external.dtype == tf.variant or internal.dtype._is_ref_dtype:
            raise ValueError(
                f"An application cannot hold what {self._graph.name} captures of dtype "
                f"{internal.dtype.name}: variables must be resource variables "
                "(use_resource=True)."
            )
        self.captured.append(external)
        return VALUE, len(self.captured) - 1

    def _queue(self, queue: Queue) -> Role:
        """Returns kind and number of a queue; registers it if it is new."""
        if isinstance(queue, IPUInfeedQueue):
            kind, queues = INFEED, self.infeeds
        else:
            kind, queues = OUTFEED, self.outfeeds
            if queue._outfeed_mode is not IPUOutfeedMode.ALL:
                raise ValueError(
                    "An outfeed of an application must have the mode ALL: with LAST "
                    "most calls would have no result."
                )
        if queue not in queues:
            queues.append(queue)
        return kind, queues.index(queue)

    def _variable(self, handle: Tensor) -> Role:
        """Returns the number of a variable, and adds it to the inputs."""
        variable = self._known.get(id(handle))
        data = handle._handle_data
        if variable is None and (data is None or not data.shape_and_type):
            raise ValueError(
                f"An application cannot hold a resource that {self._graph.name} "
                "captures: only variables and queues can be taken to another process."
            )
        number = len(self.variables)
        if variable is not None:
            name = variable.name.rpartition(":")[0] or variable.name
            spec = tf.TensorSpec(variable.shape, variable.dtype, name)
        else:
            first = data.shape_and_type[0]
            name = f"variable_{number}"
            spec = tf.TensorSpec(
                tf.TensorShape(first.shape), tf.dtypes.as_dtype(first.dtype), name
            )
        _refuse_unknown_shapes([spec], "variable")
        self.variables.append(handle)
        index = len(self.inputs)
        self.inputs.append(Feed.of(name, VARIABLE, index, index, spec))
        return VARIABLE, number


def _known_variables() -> list[tf.Variable]:
    """Returns the variables of a version 1 graph around the call, else []."""
    if tf.executing_eagerly():
        return []
    return list(tf.compat.v1.global_variables()) + list(tf.compat.v1.local_variables())


def _known_spec(tensor: Tensor) -> tf.TensorSpec:
    """Returns a result's tf.TensorSpec; raises ValueError if its shape is unknown."""
    spec = tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name)
    _refuse_unknown_shapes([spec], "result")
    return spec


def _streamed_feeds(queues: list[Queue], kind: str) -> list[Feed]:
    """Returns the components of the elements of all queues."""
    feeds: list[Feed] = []
    for number, queue in enumerate(queues):
        for path, spec in nest.flatten_with_joined_string_paths(queue._structure):
            name = path or spec.name or f"{kind}_{number}"
            feeds.append(Feed.of(name, kind, number, len(feeds), spec))
    return feeds


def _make_function(graph: FuncGraph) -> FuncGraph:
    """Makes a ConcreteFunction of a graph."""
    kind = function_type.from_structured_signature(
        graph.structured_input_signature,
        graph.structured_outputs,
        graph.function_captures.capture_types,
    )
    return concrete_function.ConcreteFunction.from_func_graph(graph, kind, {})


def _library_of(function: FuncGraph) -> function_pb2.FunctionDefLibrary:
    """Returns a function and all functions that it calls."""
    graph = tf.Graph()
    with graph.as_default():
        function.add_to_graph(graph)
    library: function_pb2.FunctionDefLibrary = graph.as_graph_def().library
    return library


def _is_pipelined(library: function_pb2.FunctionDefLibrary) -> bool:
    """Whether a program has pipeline stages, which process several elements at a time."""
    return any(
        node.op.startswith("IpufeedPipeline")
        for function in library.function
        for node in function.node_def
    )
