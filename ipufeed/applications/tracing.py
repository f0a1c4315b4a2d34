"""Traces a function for an application: its graph, and what each of its inputs is."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.eager.polymorphic_function.polymorphic_function import (
    OptionalXlaContext,
)
from tensorflow.python.framework import func_graph
from tensorflow.python.util import nest

from ipufeed.applications.signature import Feed, Signature
from ipufeed.device.program import outside_compilation
from ipufeed.device.program.compiler import (
    checked_inputs,
    checking_results,
    name_of,
)
from ipufeed.device.system.device_names import ordinal_of
from ipufeed.errors import DeviceOrdinalError
from ipufeed.queues.chain import MadeNumber, recorded_numbers
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode

# What the arguments of the traced function are, as the file names them.
INPUT, VARIABLE, INFEED, OUTFEED, VALUE, NUMBER = (
    "input",
    "variable",
    "infeed",
    "outfeed",
    "value",
    "number",
)


@dataclass(frozen=True)
class Traced:
    """A function as a graph, which needs nothing of the Python that made it.

    Attributes:
        name: What its author calls it.
        ordinal: The IPU that it was traced for.
        library: A serialised FunctionDefLibrary: the function and what it calls.
        function: Its name in the library.
        arguments: Of each argument of the function, what it is: [kind, number].
        signature: What it takes and gives, its variables among the inputs.
        variables: Their handles, in the order of the signature.
        captured: Tensors of the surrounding graph, whose values belong to the program.
        pipelined: Whether a result may need elements that come after its own.
    """

    name: str
    ordinal: int
    library: bytes
    function: str
    arguments: list[list[Any]]
    signature: Signature
    variables: list[Any]
    captured: list[Any]
    pipelined: bool


def trace(func: Callable[..., Any], inputs: Any, name: str) -> Traced:
    """Traces a function for a file.

    Raises:
        TypeError: `func` cannot be called, or `inputs` is not a list or tuple.
        ValueError: It uses what a file cannot hold: the host in the middle of the
            program, a queue that keeps the last result, a resource that is not a
            variable, a shape that is not known.
    """
    if not callable(func):
        raise TypeError(f"`func` must be a function, got {type(func).__name__}.")
    values = [tf.convert_to_tensor(value) for value in checked_inputs(inputs)]
    names = input_names(func, len(values))
    specs = [
        tf.TensorSpec(value.shape, value.dtype, argument)
        for value, argument in zip(values, names, strict=True)
    ]
    refuse_unknown_shapes(specs, "input")
    ordinal = current_ordinal()
    with recorded_numbers() as numbers:
        graph = build(func, specs, name, ordinal)
    return Description(graph, specs, numbers).traced(name, ordinal)


def input_names(func: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's first parameters; numbers where it has none."""
    names: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        names = [
            parameter.name
            for parameter in inspect.signature(func).parameters.values()
            if parameter.kind is not parameter.VAR_POSITIONAL
        ]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]


def refuse_unknown_shapes(specs: list[tf.TensorSpec], what: str) -> None:
    """Raises ValueError for a tensor whose shape is not fully defined."""
    for index, spec in enumerate(specs):
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"The shape of {what} {index} ('{spec.name}') must be fully defined, got "
                f"{spec.shape}: an application is compiled for one shape."
            )


def current_ordinal() -> int:
    """The IPU of the scope around the call, else 0."""
    from tensorflow.python.eager import context

    if tf.executing_eagerly():
        names = [context.context().device_name]
    else:
        stack = tf.compat.v1.get_default_graph()._device_function_stack
        names = [scope.display_name for scope in stack.peek_objs()]
    for name in names:
        with contextlib.suppress(DeviceOrdinalError):
            return ordinal_of(name or "")
    return 0


def build(
    func: Callable[..., Any], specs: list[tf.TensorSpec], name: str, ordinal: int
) -> Any:
    """The function's graph, as a compiled program has it."""
    checked = checking_results(func)

    def body(*arguments: Any) -> Any:
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


class Description:
    """Describes each input of a graph.

    Args:
        graph: The FuncGraph.
        specs: Of the function's own arguments.
        numbers: What host_number has made while it was traced.
    """

    def __init__(
        self, graph: Any, specs: list[tf.TensorSpec], numbers: list[MadeNumber]
    ) -> None:
        self._graph = graph
        self._specs = specs
        self._numbers = {id(made.tensor): made for made in numbers}
        self._known = {
            id(variable.handle): variable
            for variable in (*graph.variables, *known_variables())
            if hasattr(variable, "handle")
        }
        self.variables: list[Any] = []
        self.captured: list[Any] = []
        self.inputs = [
            Feed.of(spec.name, INPUT, index, index, spec)
            for index, spec in enumerate(specs)
        ]
        self.infeeds: list[Any] = []
        self.outfeeds: list[Any] = []

    def traced(self, name: str, ordinal: int) -> Traced:
        """All of it."""
        arguments = [[INPUT, index] for index in range(len(self._specs))]
        arguments += [
            self.argument(external, internal)
            for external, internal in self._graph.captures
        ]
        function = make_function(self._graph)
        outputs = [
            Feed.of(f"output_{index}", "output", index, index, spec_of(tensor))
            for index, tensor in enumerate(self._graph.outputs)
        ]
        library = library_of(function)
        return Traced(
            name=name,
            ordinal=ordinal,
            library=library.SerializeToString(deterministic=True),
            function=tf.compat.as_str(function.name),
            arguments=arguments,
            signature=Signature(
                tuple(self.inputs),
                tuple(outputs),
                tuple(streamed(self.infeeds, INFEED)),
                tuple(streamed(self.outfeeds, OUTFEED)),
            ),
            variables=self.variables,
            captured=self.captured,
            pipelined=is_pipelined(library),
        )

    def argument(self, external: Any, internal: Any) -> list[Any]:
        """What a captured tensor is: [kind, number]."""
        made = self._numbers.get(id(external))
        if made is not None:
            return self.queue(made.queue) if made.queue else [NUMBER, made.number]
        if external.dtype == tf.resource:
            return self.variable(external)
        if external.dtype == tf.variant or internal.dtype._is_ref_dtype:
            raise ValueError(
                f"An application cannot hold what {self._graph.name} captures of dtype "
                f"{internal.dtype.name}: variables must be resource variables "
                "(use_resource=True)."
            )
        self.captured.append(external)
        return [VALUE, len(self.captured) - 1]

    def queue(self, queue: Any) -> list[Any]:
        """The number of a queue among those of its kind."""
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
        return [kind, queues.index(queue)]

    def variable(self, handle: Any) -> list[Any]:
        """The number of a variable; it is an input of the application as well."""
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
        refuse_unknown_shapes([spec], "variable")
        self.variables.append(handle)
        index = len(self.inputs)
        self.inputs.append(Feed.of(name, VARIABLE, index, index, spec))
        return [VARIABLE, number]


def known_variables() -> list[Any]:
    """The variables of the graph around, if it is one of version 1."""
    if tf.executing_eagerly():
        return []
    return list(tf.compat.v1.global_variables()) + list(tf.compat.v1.local_variables())


def spec_of(tensor: Any) -> Any:
    """Its tf.TensorSpec; raises ValueError if the shape is not known."""
    spec = tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name)
    refuse_unknown_shapes([spec], "result")
    return spec


def streamed(queues: list[Any], kind: str) -> list[Feed]:
    """The components of the elements of all queues, numbered."""
    feeds: list[Feed] = []
    for number, queue in enumerate(queues):
        for path, spec in nest.flatten_with_joined_string_paths(queue._structure):
            name = path or spec.name or f"{kind}_{number}"
            feeds.append(Feed.of(name, kind, number, len(feeds), spec))
    return feeds


def make_function(graph: Any) -> Any:
    """A ConcreteFunction of a graph."""
    from tensorflow.core.function.polymorphism import function_type

    kind = function_type.from_structured_signature(
        graph.structured_input_signature,
        graph.structured_outputs,
        graph.function_captures.capture_types,
    )
    return concrete_function.ConcreteFunction.from_func_graph(graph, kind, {})


def library_of(function: Any) -> function_pb2.FunctionDefLibrary:
    """A function and all that it calls."""
    graph = tf.Graph()
    with graph.as_default():
        function.add_to_graph(graph)
    library: function_pb2.FunctionDefLibrary = graph.as_graph_def().library
    return library


def is_pipelined(library: function_pb2.FunctionDefLibrary) -> bool:
    """Whether a program has stages, which work on several elements at a time."""
    return any(
        node.op.startswith("IpufeedPipeline")
        for function in library.function
        for node in function.node_def
    )
