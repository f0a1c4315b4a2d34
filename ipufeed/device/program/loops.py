"""Loops that run on the IPU as one program."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ipufeed.checks import as_int, flags_checked
from ipufeed.device.program.loop_bound import Bound
from ipufeed.device.program.training_loop import TrainingLoop, checked_count, inside
from ipufeed.queues.autograph import as_user_function
from ipufeed.queues.chain import host_number
from ipufeed.queues.structure import body_arguments
from ipufeed.tf_patches.changes import replace

if TYPE_CHECKING:
    from ipufeed.queues.infeed import IPUInfeedQueue


@flags_checked
def repeat(
    n: Any,
    body: Callable[..., Any],
    inputs: Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Runs `body` n times.

        def body(total, image, label):
            loss = train(image, label)
            return total + loss, outfeed.enqueue(loss)

        total = loops.repeat(1000, body, [0.0], infeed)

    Args:
        n: How often: a Python int, or a scalar integer tensor. It is an input of the
            program: another number does not compile another one, unless the program has
            gradients of the loop's results, which need a Python int.
        body: Takes the carried values and then the next element of `infeed_queue`
            (spread, or as keyword arguments if it is a dict). Returns the new carried
            values and then operations to run, either of which may be missing.
        inputs: The first carried values: one, or a list. Each iteration must give values
            of the same dtypes.
        infeed_queue: An IPUInfeedQueue. Each iteration takes one element.
        use_while_v1: In a version 1 graph, which of TensorFlow's two loops to build.
            TensorFlow cannot compile gradients of a version 1 loop with a tf.cond in its
            body ("nodes in a cycle"): give False for these.

    Returns:
        The carried values after the last iteration: one tensor, or a list of several. If
        there are none, an operation; inside a tf.function, which cannot return one, the
        number of iterations.

    Raises:
        TypeError: `body` cannot be called so, or changes the dtypes; `infeed_queue` is
            not a queue.
        ValueError: `body` returns operations before tensors, or does not use what it must.

    Threads: builds a part of the current graph; in eager mode it runs at once.
    """
    import tensorflow as tf

    check_queue(infeed_queue)
    values = listed(inputs)
    check_arity(body, values, infeed_queue, condition=False)
    limit = checked_count(run_time_value(n))
    bound = Bound.of(n, use_while_v1)
    step = wrap_body(body, values, infeed_queue, limit, bound)
    with loop_version(use_while_v1):
        count, *results = while_of_tensorflow(bound)(
            lambda i, *state: i < limit,
            step,
            (tf.constant(0, limit.dtype), *values),
        )
    check_dequeued(infeed_queue)
    return unlisted(count, results, values)


@flags_checked
def while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: Any = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: int | None = None,
    use_while_v1: bool = True,
) -> Any:
    """Runs `body` as long as `condition` holds.

    Args:
        condition: Takes the carried values (never the infeed's) and returns a boolean
            scalar.
        body: See `repeat`.
        inputs: See `repeat`.
        infeed_queue: See `repeat`.
        maximum_iterations: Stop after this many at the latest. Default: no bound.
        use_while_v1: See `repeat`.

    Returns:
        See `repeat`.

    Raises:
        TypeError: `condition` or `body` cannot be called so, or `body` changes the dtypes.
        ValueError: See `repeat`.
    """
    check_queue(infeed_queue)
    values = listed(inputs)
    check_arity(condition, values, infeed_queue, condition=True)
    check_arity(body, values, infeed_queue, condition=False)
    bound = Bound.of(maximum_iterations, use_while_v1)
    step = wrap_body(body, values, infeed_queue, bound=bound)
    limit = None if maximum_iterations is None else run_time_value(maximum_iterations)
    import tensorflow as tf

    asks = as_user_function(condition)

    def goes_on(i: Any, *state: Any) -> Any:
        holds = tf.reshape(tf.convert_to_tensor(asks(*state)), [])
        return holds if limit is None else tf.logical_and(i < limit, holds)

    first = tf.constant(0, tf.int32 if limit is None else limit.dtype)
    with loop_version(use_while_v1):
        count, *results = while_of_tensorflow(bound)(goes_on, step, (first, *values))
    check_dequeued(infeed_queue)
    return unlisted(count, results, values)


def while_of_tensorflow(bound: Bound) -> Callable[..., list[Any]]:
    """tf.while_loop, one iteration at a time, with a list of results.

    Its name is empty: ops of the body, and variables that are made there, are named as if
    there were no loop, and checkpoints rely on it.
    """
    import tensorflow as tf

    def run(condition: Any, body: Any, variables: tuple[Any, ...]) -> list[Any]:
        return list(
            tf.while_loop(
                condition,
                body,
                list(variables),
                parallel_iterations=1,
                maximum_iterations=bound.argument,
                name="",
            )
        )

    return run


def wrap_body(
    body: Callable[..., Any],
    values: list[Any],
    infeed_queue: IPUInfeedQueue | None,
    limit: Any = None,
    bound: Bound | None = None,
) -> Callable[..., list[Any]]:
    """The body as TensorFlow's loop wants it: counter and carried tensors in and out.

    What the body returns as operations, and the dequeue, are made dependencies of both: a
    version 1 loop would otherwise leave them out.

    `limit` is how often the loop runs, if that is known before: see TrainingLoop.
    """
    import tensorflow as tf

    dtypes = [value.dtype for value in values]
    runs = as_user_function(body)

    def step(i: Any, *state: Any) -> list[Any]:
        if bound is not None and bound.context is not None:
            graph = tf.compat.v1.get_default_graph()
            graph._get_control_flow_context()._maximum_iterations = bound.context
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        operations: list[Any] = []
        if infeed_queue is not None:
            element = infeed_queue._dequeue()
            arguments, keywords = body_arguments(element)
            if not tf.executing_eagerly():
                operations = [tensor.op for tensor in tf.nest.flatten(element)]
        if limit is None:
            loop = TrainingLoop()
        else:
            loop = TrainingLoop(i, limit if tf.executing_eagerly() else limit.op)
        with inside(loop):
            results = runs(*state, *arguments, **keywords)
        tensors, more = split_results(results)
        found = [tensor.dtype for tensor in tensors]
        if found != dtypes:
            raise TypeError(
                "Mismatch between input types and output types for loop body: "
                f"{[dtype.name for dtype in dtypes]} vs {[dtype.name for dtype in found]}."
            )
        if tf.executing_eagerly():
            return [i + 1, *tensors]
        with tf.control_dependencies(operations + more):
            return [passed_on(tensor) for tensor in [i + 1, *tensors]]

    return step


def passed_on(value: Any) -> Any:
    """The same tensor, or TensorArray, for what must happen before it is used."""
    import tensorflow as tf

    return value.identity() if isinstance(value, tf.TensorArray) else tf.identity(value)


def carried(value: Any) -> Any:
    """A value as a tensor; TensorArrays are carried as they are."""
    import tensorflow as tf

    if isinstance(value, tf.TensorArray):
        return value
    if isinstance(value, dict):
        raise TypeError(
            "A loop carries tensors, got a dict. Give its values, as in "
            "`list(values.values())`, and return them in the same order."
        )
    return tf.convert_to_tensor(value)


def split_results(results: Any) -> tuple[list[Any], list[Any]]:
    """What a body returned: tensors, and the operations behind them.

    Raises:
        ValueError: An operation comes before a tensor.
    """
    import tensorflow as tf

    if results is None:
        return [], []
    if not isinstance(results, (list, tuple)):
        results = [results]
    tensors: list[Any] = []
    operations: list[Any] = []
    for result in results:
        if isinstance(result, tf.Operation):
            operations.append(result)
        elif result is None:  # an enqueue in eager mode
            continue
        elif operations:
            raise ValueError(
                "IPU loop body must return zero or more Tensor values followed by zero or "
                "more Operations."
            )
        else:
            tensors.append(carried(result))
    return tensors, operations


def run_time_value(n: Any) -> Any:
    """A number as an input of the program rather than a part of it."""
    import tensorflow as tf

    if tf.is_tensor(n):
        if not n.dtype.is_integer:
            raise TypeError(f"`n` must be an integer, got a tensor of {n.dtype.name}.")
        return tf.reshape(n, [])
    n = as_int("n", n)
    if not -(2**63) <= n < 2**63:
        raise ValueError(f"`n` must fit 64 bits, got {n}.")
    return host_number(n)


@contextlib.contextmanager
def loop_version(use_while_v1: bool) -> Iterator[None]:
    """Within it tf.while_loop builds the loop that is asked for, in a version 1 graph."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        yield  # a function can only hold version 2 loops
        return
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    replace(control_flow_util, "ENABLE_CONTROL_FLOW_V2", not use_while_v1)
    try:
        yield
    finally:
        replace(control_flow_util, "ENABLE_CONTROL_FLOW_V2", before)


def listed(inputs: Any) -> list[Any]:
    """None -> [], one value -> [value]; each as a tensor, or a TensorArray."""
    if inputs is None:
        return []
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    return [carried(value) for value in inputs]


def unlisted(count: Any, results: list[Any], values: list[Any]) -> Any:
    """One tensor alone, several as a list; where nothing is carried an operation.

    Inside a function, which cannot return one, the number of iterations in its place.
    """
    import tensorflow as tf

    if not values:
        graph = tf.compat.v1.get_default_graph()
        # A function can return a tensor, and no operation.
        if tf.executing_eagerly() or graph.building_function:
            return count
        return tf.group(count)
    return results[0] if len(results) == 1 else results


def check_queue(infeed_queue: Any) -> None:
    """Refuses what is not an infeed queue, before anything asks it for its elements."""
    if infeed_queue is not None and not hasattr(infeed_queue, "_dequeue"):
        raise TypeError(
            "`infeed_queue` must be an IPUInfeedQueue, got "
            f"{type(infeed_queue).__name__}. A dataset is fed through "
            "IPUInfeedQueue(dataset)."
        )


def check_dequeued(infeed_queue: IPUInfeedQueue | None) -> None:
    """Refuses a loop whose infeed is not read."""
    if infeed_queue is not None and not infeed_queue.dequeued:
        raise ValueError("The infeed queue has not been dequeued.")


def check_arity(
    function: Callable[..., Any],
    values: list[Any],
    infeed_queue: IPUInfeedQueue | None,
    *,
    condition: bool,
) -> None:
    """Finds out before tracing whether the function takes what it will get."""
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    if infeed_queue is not None and not condition:
        arguments, keywords = body_arguments(infeed_queue._structure)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions have none
        return
    try:
        signature.bind(*values, *arguments, **keywords)
    except TypeError as error:
        takes = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        extra = len(arguments) + len(keywords)
        names = (
            ", ".join(
                getattr(value, "name", "") or f"input {index}"
                for index, value in enumerate(values)
            )
            if values and not is_eager()
            else f"{len(values)} values"
        )
        message = (
            f"Supplied loop {'condition' if condition else 'body'} function cannot be "
            "called with the specified inputs. You specified "
            f"{len(values)} inputs: [{names}]"
        )
        if condition:
            message += f", but the computation needs {len(takes)}"
            if infeed_queue is not None:
                message += ". Note that infeed is not passed to the loop condition"
        else:
            message += (
                f" and {extra} additional inputs from infeed, but the computation needs "
                f"{len(takes)}"
            )
        raise TypeError(f"{message}: {error}.") from error


def is_eager() -> bool:
    """Whether TensorFlow runs ops as they are written."""
    import tensorflow as tf

    return bool(tf.executing_eagerly())
