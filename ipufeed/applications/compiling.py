"""experimental_application_compile_op: compiles a function to a file."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

import tensorflow as tf
from tensorflow.python.eager import context

from ipufeed.applications import file
from ipufeed.applications.file import Application
from ipufeed.applications.program import Program
from ipufeed.applications.tracing import VARIABLE, trace
from ipufeed.checks import flags_checked
from ipufeed.device.program.compiler import name_of
from ipufeed.tf_types import Nest, NestFunction, Tensor

SUFFIX = ".poplar_exec"


@flags_checked
def experimental_application_compile_op(
    func: NestFunction,
    inputs: Nest = None,
    output_path: str | os.PathLike[str] | None = None,
    freeze_variables: bool = False,
    name: str | None = None,
) -> Tensor:
    """Compiles a function to a file that embedded_runtime_start runs in any process.

        def application():
            return loops.repeat(1000, body, [], infeed_queue)

        path = experimental_application_compile_op(application, freeze_variables=True)

    Nothing is run, and the queues are not read: they become inputs and outputs of calls.
    The file has the compiled program, and the graph for compiling it on another CPU.

    Args:
        func: Builds the program, as for ipu_compiler.compile. Calls do not return its
            results: those of the outfeeds are returned.
        inputs: Values or placeholders for its arguments. Only shapes and dtypes are used:
            embedded_runtime_start takes the values.
        output_path: The file, which is replaced. Default (None): a new temporary file
            `<name>...poplar_exec`.
        freeze_variables: Whether to store the variables' present values in the file. If
            not, they are inputs of embedded_runtime_start, by name.
        name: Name of the operation and the program. Default: the function's.

    Returns:
        The file's path, a scalar string tensor. In a version 1 graph the result of an
        operation that compiles each time it runs; in eager mode it is already compiled.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: The function uses something that a file cannot hold.
        tf.errors.OpError: It cannot be compiled, or the file cannot be written.

    Threads: any; one application is compiled at a time.

    Source: Graphcore's function of this name.
    """
    name = str(name or name_of(func) or "application")
    path = _checked_path(output_path)
    traced, handles = trace(func, inputs, name)
    values = _read_variables(traced, handles) if freeze_variables else []
    if tf.executing_eagerly():
        captured = [value.numpy() for value in traced.captured]
        return tf.constant(str(_compile_to_file(traced, path, captured, values)))
    count = len(traced.captured)

    def compile_now(*arrays: Tensor) -> bytes:
        with context.eager_mode():
            written = _compile_to_file(
                traced, path, list(arrays[:count]), list(arrays[count:])
            )
        return os.fsencode(written)

    with tf.device("/device:CPU:0"):
        result = tf.numpy_function(
            compile_now, [*traced.captured, *values], tf.string, name=name
        )
    result.set_shape([])
    return result


def _checked_path(path: object) -> Path | None:
    """Checks and returns the path of the file; None for a temporary one.

    Raises:
        TypeError: The argument is not a path.
        ValueError: The folder does not exist, or the path is one.
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
            f"`output_path` must be in a folder that exists, got {path}: make "
            f"{found.parent} first."
        )
    if found.is_dir():
        raise ValueError(
            f"`output_path` must be that of a file, got the folder {path}: add a name, "
            "such as program.poplar_exec."
        )
    return found


def _read_variables(traced: Application, handles: list[Tensor]) -> list[Tensor]:
    """Returns the variables' values: arrays in eager mode, else tensors."""
    feeds = [
        each for each in traced.signature.inputs if each.handle.startswith(VARIABLE)
    ]
    values = [
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=feed.spec.dtype)
        for handle, feed in zip(handles, feeds, strict=True)
    ]
    if not tf.executing_eagerly():
        return values
    return [value.numpy() for value in values]


def _compile_to_file(
    traced: Application,
    path: Path | None,
    captured: list[Tensor],
    variables: list[Tensor],
) -> Path:
    """Compiles a traced function, and writes the file."""
    application = dataclasses.replace(traced, captured=captured)
    programs = Program(application, None).compile()
    application = dataclasses.replace(application, programs=programs)
    if variables:
        application = _freeze(application, variables)
    if path is None:
        descriptor, temporary = tempfile.mkstemp(
            prefix=f"{traced.name.replace(os.sep, '_')}_", suffix=SUFFIX
        )
        os.close(descriptor)
        path = Path(temporary)
    file.write(path, application)
    return path


def _freeze(application: Application, variables: list[Tensor]) -> Application:
    """Returns the application with its variables as values instead of inputs."""
    signature = application.signature
    kept = tuple(
        feed for feed in signature.inputs if not feed.handle.startswith(VARIABLE)
    )
    return dataclasses.replace(
        application,
        variables=variables,
        signature=dataclasses.replace(signature, inputs=kept),
    )
