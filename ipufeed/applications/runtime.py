"""embedded_runtime: starts an application from its file, and calls it on any thread."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from ipufeed import ending
from ipufeed.applications import engine, file, saved_calls
from ipufeed.applications.signature import Feed, Signature
from ipufeed.checks import is_int
from ipufeed.tf_types import Nest, Tensor

DEFAULT_TIMEOUT_US = 5000
PathOrTensor = str | os.PathLike[str] | Tensor


@dataclass(frozen=True)
class RuntimeContext:
    """An engine that embedded_runtime_start has started."""

    _name: str
    _start_output: Tensor
    _signature: Signature

    def name(self) -> str:
        """Returns the engine's name."""
        return self._name

    def start_output(self) -> Tensor:
        """Returns a scalar string tensor, available once the engine has been started."""
        return self._start_output

    def signature(self) -> Signature:
        """Returns the application's inputs and outputs."""
        return self._signature

    def output_types(self) -> list[tf.DType]:
        """Returns the dtypes of a call's results."""
        return [feed.spec.dtype for feed in self._signature.streamed_outputs]


def embedded_runtime_start(
    executable_file: PathOrTensor, inputs: Nest, name: str, timeout: int | None = None
) -> RuntimeContext:
    """Starts an engine that runs an application on its own thread.

    Args:
        executable_file: The file of experimental_application_compile_op: a path, or a
            string tensor whose value is known when this is called.
        inputs: The values of the signature's inputs, as a list in its order or a dict by
            its names: the function's arguments, and the variables that are not frozen.
        name: The engine's name. An engine of this name that exists is left as it is; in
            eager mode with a warning if it has another application or other inputs.
        timeout: Microseconds that a call of a pipeline waits for further calls, before
            elements of zeros are fed, whose results are dropped. Default: 5000.

    Returns:
        The context for embedded_runtime_call. In a version 1 graph the engine starts
        when a call, or `start_output()`, runs.

    Raises:
        TypeError: An argument, or an input's dtype, has a wrong type.
        ValueError: The inputs do not match the signature.
        tf.errors.NotFoundError: The file does not exist.
        tf.errors.InvalidArgumentError: The file is damaged, is not an application, or
            was written by another version of TensorFlow.
        tf.errors.PermissionDeniedError: Other users may have written the file.

    Threads: any.

    Source: Graphcore's function of this name.
    """
    path = _path_of(executable_file)
    timeout_us = _checked_timeout(timeout)
    if not isinstance(name, str) or not name:
        raise TypeError(f"`name` must be a str that is not empty, got {name!r}.")
    application = file.read(Path(path))
    feeds = application.signature.inputs
    values = _checked_values(_in_order(inputs, feeds), feeds, "runtime", TypeError)
    if tf.executing_eagerly():
        started = engine.start(name, application, values, timeout_us / 1e6)
        started.warn_of_others(application, values)
        output: Tensor = tf.constant(name)
    else:
        given = [
            tf.constant(path),
            tf.constant(name),
            tf.constant(timeout_us, tf.int64),
        ]
        spec = tf.TensorSpec([], tf.string)
        (output,) = saved_calls.build(saved_calls.START, [*given, *values], [spec])
    return RuntimeContext(name, output, application.signature)


@ending.leaves_at_exit
def embedded_runtime_call(inputs: Nest, context: RuntimeContext) -> list[Tensor]:
    """Feeds one element to an application, and returns its result.

    Args:
        inputs: A list or tuple: the components of one element of the infeed, in the order
            of `context.signature().streamed_inputs`.
        context: The context that embedded_runtime_start returned.

    Returns:
        A list of tensors: the components of the matching result of the outfeed.

    Raises:
        TypeError: An argument, or an input's dtype, has a wrong type.
        ValueError: The inputs do not match the signature.
        tf.errors.FailedPreconditionError: The engine does not exist.
        tf.errors.OpError: The program's error; the next call restarts the program.

    Threads: any number at a time. Each call waits for its own result.

    Source: Graphcore's function of this name.
    """
    _check_context(context)
    signature = context.signature()
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"Expected the inputs to be a list. Got {type(inputs).__name__}."
        )
    feeds = signature.streamed_inputs
    values = _checked_values(list(inputs), feeds, "call", TypeError)
    if tf.executing_eagerly():
        return engine.find(context.name()).call(values)
    with tf.control_dependencies([context.start_output()]):
        return saved_calls.build(
            saved_calls.CALL,
            [tf.constant(context.name()), *values],
            [feed.spec for feed in signature.streamed_outputs],
        )


def embedded_runtime_start_and_call(
    executable_file: PathOrTensor, startup_inputs: Nest, call_inputs: Nest, name: str
) -> tuple[list[Tensor], RuntimeContext]:
    """Starts an engine and calls it; returns the results, and the context for more calls.

    Args:
        executable_file: See embedded_runtime_start.
        startup_inputs: See `inputs` of embedded_runtime_start.
        call_inputs: See `inputs` of embedded_runtime_call.
        name: The engine's name.

    Source: Graphcore's function of this name.
    """
    context = embedded_runtime_start(executable_file, startup_inputs, name)
    return embedded_runtime_call(call_inputs, context), context


def embedded_runtime_stop(context: RuntimeContext) -> None:
    """Stops an engine, in eager mode. Waiting calls raise CancelledError.

    Its variables and queues are freed; an engine of the same name can be started.
    Graphcore's engines cannot be stopped.

    Args:
        context: The context that embedded_runtime_start returned.

    Raises:
        TypeError: The argument is not a RuntimeContext.
        RuntimeError: Called outside of eager mode.
    """
    _check_context(context)
    if not tf.executing_eagerly():
        raise RuntimeError(
            "embedded_runtime_stop works in eager mode only: end the process instead."
        )
    engine.stop(context.name())


def _check_context(context: object) -> None:
    if not isinstance(context, RuntimeContext):
        raise TypeError(
            "`context` must be what embedded_runtime_start returns, got "
            f"{type(context).__name__}."
        )


def _path_of(executable_file: object) -> str:
    """Returns the path as text.

    Raises:
        TypeError: The argument is neither a path nor a string tensor.
        ValueError: The argument is a tensor whose value is unknown.
    """
    value = executable_file
    if tf.is_tensor(value):
        value = tf.get_static_value(value)
        if value is None:
            raise ValueError(
                "`executable_file` is a tensor whose value is not known while the graph "
                "is built: run it first, and give its value, since the signature is read "
                "from the file."
            )
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.path.abspath(os.path.expanduser(os.fsdecode(value)))
    raise TypeError(
        "`executable_file` must be a path or a string tensor, got "
        f"{type(executable_file).__name__}."
    )


def _checked_timeout(timeout: object) -> int:
    """Checks and returns the timeout in microseconds; raises TypeError or ValueError."""
    if timeout is None:
        return DEFAULT_TIMEOUT_US
    if not is_int(timeout):
        raise TypeError(
            "`timeout` must be an int of microseconds or None, got "
            f"{type(timeout).__name__} {timeout!r}."
        )
    if timeout <= 0:
        raise ValueError(f"`timeout` must be at least 1 microsecond, got {timeout}.")
    return int(timeout)


def _in_order(inputs: Nest, feeds: tuple[Feed, ...]) -> list[Tensor]:
    """Returns the inputs in the order of the signature.

    Raises:
        TypeError: The argument is neither a list, a tuple nor a dict.
        ValueError: A dict lacks an input.
    """
    if isinstance(inputs, dict):
        for feed in feeds:
            if feed.name not in inputs:
                raise ValueError(
                    f"Failed to find input tensor with name '{feed.name}' in input "
                    f"dictionary. It has: {', '.join(map(str, inputs)) or 'nothing'}."
                )
        return [inputs[feed.name] for feed in feeds]
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            "Expected the inputs to be a list. A tuple, or a dict by the names of the "
            f"signature, may be given as well; got {type(inputs).__name__}."
        )
    return list(inputs)


def _checked_values(
    values: list[Tensor], feeds: tuple[Feed, ...], what: str, error: type[Exception]
) -> list[Tensor]:
    """Converts the inputs to tensors of the signature's shapes and dtypes.

    Raises:
        ValueError: Their number or a shape differs.
        TypeError: A dtype differs.
    """
    if len(values) != len(feeds):
        raise ValueError(
            f"Embedded application {what} expects {len(feeds)} inputs, but {len(values)} "
            f"were provided. It takes: {', '.join(f.name for f in feeds) or 'none'}."
        )
    tensors = []
    for position, (value, feed) in enumerate(zip(values, feeds, strict=True)):
        spec = feed.spec
        plain = not (tf.is_tensor(value) or hasattr(value, "dtype"))
        tensor = tf.convert_to_tensor(value, spec.dtype if plain else None)
        if tensor.dtype != spec.dtype:
            raise error(
                f"Mismatched input dtype at position {position} ('{feed.name}'). "
                f"Expected {spec.dtype.name}, but input {position} has dtype "
                f"{tensor.dtype.name}."
            )
        if not tensor.shape.is_compatible_with(spec.shape):
            raise ValueError(
                f"Mismatched input shape at position {position} ('{feed.name}'). "
                f"Expected {list(spec.shape)}, but input {position} has shape "
                f"{tensor.shape}."
            )
        tensors.append(tensor)
    return tensors
