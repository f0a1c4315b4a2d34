"""experimental_application_compile_op: a function as a file that other processes call."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from ipufeed.applications import file
from ipufeed.applications.file import Application
from ipufeed.applications.program import Program
from ipufeed.applications.signature import Signature
from ipufeed.applications.tracing import VARIABLE, Traced, trace
from ipufeed.checks import flags_checked
from ipufeed.device.program.compiler import name_of

SUFFIX = ".poplar_exec"


@flags_checked
def experimental_application_compile_op(
    func: Callable[..., Any],
    inputs: Any = None,
    output_path: str | os.PathLike[str] | None = None,
    freeze_variables: bool = False,
    name: str | None = None,
) -> Any:
    """Compiles a function to a file that embedded_runtime_start runs in any process.

        def application():
            return loops.repeat(1000, body, [], infeed_queue)

        path = experimental_application_compile_op(application, freeze_variables=True)

    Nothing is run, and the queues are not read: they become what a call takes and gives.
    The file has the compiled program, and the graph, from which another CPU compiles it.

    Args:
        func: Builds the program, as for ipu_compiler.compile. What it returns is given by
            no call: results go through outfeeds.
        inputs: Values or placeholders for its arguments, of which only shapes and dtypes
            count: the values are given to embedded_runtime_start.
        output_path: The file, which is replaced. Default (None): a new temporary file
            `<name>...poplar_exec`.
        freeze_variables: Whether the values of the variables, as they are when this runs,
            are in the file. If not, they are inputs of embedded_runtime_start, by name.
        name: Of the operation and the program. Default: the function's.

    Returns:
        The file's path, a string tensor (scalar). In a version 1 graph the tensor of an
        operation, which compiles each time it runs; in eager mode it has been compiled.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The function uses what a file cannot hold; see the message.
        tf.errors.OpError: It cannot be compiled, or the file cannot be written.

    Threads: any; one application is compiled at a time.

    Source: Graphcore's function of this name.
    """
    name = str(name or name_of(func) or "application")
    path = checked_path(output_path)
    traced = trace(func, inputs, name)
    if tf.executing_eagerly():
        captured = [value.numpy() for value in traced.captured]
        values = read_variables(traced) if freeze_variables else []
        return tf.constant(str(compiled_file(traced, path, captured, values)))
    values = read_variables(traced) if freeze_variables else []
    count = len(traced.captured)

    def compile_now(*arrays: Any) -> bytes:
        with context.eager_mode():
            written = compiled_file(
                traced, path, list(arrays[:count]), list(arrays[count:])
            )
        return os.fsencode(written)

    with tf.device("/device:CPU:0"):
        result = tf.numpy_function(
            compile_now, [*traced.captured, *values], tf.string, name=name
        )
    result.set_shape([])
    return result


def checked_path(path: Any) -> Path | None:
    """The path of the file; None for a temporary one.

    Raises:
        TypeError: It is not a path.
        ValueError: Its folder is not there.
    """
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"`output_path` must be a str or a path, got {type(path).__name__} {path!r}."
        )
    found = Path(path).expanduser().absolute()
    if not found.parent.is_dir():
        raise ValueError(
            f"`output_path` must be in a folder that is there, got {path}: make "
            f"{found.parent} first."
        )
    return found


def read_variables(traced: Traced) -> list[Any]:
    """The values of the variables: arrays in eager mode, else tensors to run."""
    feeds = [
        each for each in traced.signature.inputs if each.handle.startswith(VARIABLE)
    ]
    values = [
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=feed.spec.dtype)
        for handle, feed in zip(traced.variables, feeds, strict=True)
    ]
    if not tf.executing_eagerly():
        return values
    return [value.numpy() for value in values]


def compiled_file(
    traced: Traced, path: Path | None, captured: list[Any], variables: list[Any]
) -> Path:
    """Compiles what was traced, and writes the file."""
    inputs = traced.signature.inputs
    of_variables = [each for each in inputs if each.handle.startswith(VARIABLE)]
    signature = traced.signature
    application = Application(
        name=traced.name,
        ordinal=traced.ordinal,
        signature=signature,
        arguments=traced.arguments,
        function=traced.function,
        library=traced.library,
        captured=captured,
        variables=[],
        variable_specs=[
            [feed.shape.element_type, list(feed.shape.dimensions)]
            for feed in of_variables
        ],
        pipelined=traced.pipelined,
    )
    application = with_programs(application)
    if variables:
        application = frozen(application, variables)
    if path is None:
        descriptor, temporary = tempfile.mkstemp(
            prefix=f"{traced.name.replace(os.sep, '_')}_", suffix=SUFFIX
        )
        os.close(descriptor)
        path = Path(temporary)
    file.write(path, application)
    return path


def with_programs(application: Application) -> Application:
    """The application with what was compiled of it."""
    return dataclasses.replace(
        application, programs=Program(application, None).compile()
    )


def frozen(application: Application, variables: list[Any]) -> Application:
    """The application with its variables' values, which are not inputs then."""
    signature = application.signature
    kept = tuple(
        feed for feed in signature.inputs if not feed.handle.startswith(VARIABLE)
    )
    return dataclasses.replace(
        application,
        variables=variables,
        signature=Signature(
            kept,
            signature.outputs,
            signature.streamed_inputs,
            signature.streamed_outputs,
        ),
    )
