"""Loops that run on the IPU as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipufeed.checks import check_function, flags_checked, own_signature
from ipufeed.device.log import LOGGER
from ipufeed.device.program import outside_compilation
from ipufeed.device.program.loop_bound import Bound, run_time_value
from ipufeed.device.program.loop_values import (
    as_condition,
    check_results,
    listed,
    passed_on,
    split_results,
)
from ipufeed.device.program.scopes import graph_entered
from ipufeed.device.program.training_loop import (
    TrainingLoop,
    checked_count,
    inside,
    training_loop,
)
from ipufeed.queues.autograph import as_user_function
from ipufeed.queues.chained_ops import unneeded_enqueues
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.structure import body_arguments
from ipufeed.tf_patches.loop_version import loop_version
from ipufeed.tf_types import Nest, NestFunction, Operation, Tensor, TensorLike

NOT_RUN = (
    "The body `%s` of a version 1 loop enqueues to an outfeed, and nothing that it returns "
    "depends on it: TensorFlow does not run the enqueue, and the queue has no results of "
    "it. Return it after the carried values, as in `return total, outfeed.enqueue(loss)`."
)


@flags_checked
def repeat(
    n: TensorLike,
    body: NestFunction,
    inputs: Nest = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> Nest:
    """Runs `body` n times.

        def body(total, image, label):
            loss = train(image, label)
            return total + loss, outfeed.enqueue(loss)

        total = loops.repeat(1000, body, [0.0], infeed)

    Args:
        n: The number of iterations: a Python int of at least 0, or a scalar tensor of
            int32 or int64, where a negative value means 0. It is an input of the program:
            another number does not compile another program, except with gradients of the
            loop's results, which need a Python int.
        body: Its arguments are the carried values and then the next element of
            `infeed_queue` (unpacked, or as keyword arguments if it is a dict). It returns
            the new carried values and then operations to run; both are optional.
        inputs: The first carried values: one, or a list. Each iteration must return values
            of the same dtypes and shapes.
        infeed_queue: An IPUInfeedQueue. Each iteration dequeues one element.
        use_while_v1: Which of TensorFlow's two loops to build in a version 1 graph. A
            tf.cond in its body is an If operation in both.

    Returns:
        The carried values after the last iteration: one tensor, or a list of several.
        Without carried values an operation; inside a tf.function, which cannot return one,
        the number of iterations.

    Raises:
        TypeError: `body` cannot be called with these arguments, or changes the dtypes;
            `infeed_queue` is not a queue; or `n` is of another type.
        ValueError: `body` returns operations before tensors, or changes the shapes; the
            queue is not dequeued; or `n` is negative or not a scalar.

    Threads: builds a part of the current graph; in eager mode it runs at once.
    """
    check_function("body", body)
    _check_queue(infeed_queue)
    values = listed(inputs)
    _check_arity(body, values, infeed_queue, condition=False)
    limit = checked_count(run_time_value("n", n))
    bound = Bound.of(n, use_while_v1)
    step = _wrap_body(body, values, infeed_queue, limit, bound)
    with loop_version(use_while_v1):
        count, *results = _build_while(
            bound,
            lambda i, *state: i < limit,
            step,
            [tf.constant(0, limit.dtype), *values],
        )
    check_dequeued(infeed_queue)
    return _unlisted(count, results, values)


@flags_checked
def while_loop(
    condition: NestFunction,
    body: NestFunction,
    inputs: Nest = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: TensorLike | None = None,
    use_while_v1: bool = True,
) -> Nest:
    """Runs `body` as long as `condition` holds.

    Args:
        condition: Its arguments are the carried values (never the infeed's element); it
            returns a boolean scalar.
        body: See `repeat`.
        inputs: See `repeat`.
        infeed_queue: See `repeat`.
        maximum_iterations: The largest number of iterations, of the types of `n` of
            `repeat`. Default: no bound.
        use_while_v1: See `repeat`.

    Returns:
        See `repeat`.

    Raises:
        TypeError: `condition` or `body` cannot be called with these arguments; `body`
            changes the dtypes; or `condition` does not return a boolean.
        ValueError: See `repeat`.
    """
    check_function("condition", condition)
    check_function("body", body)
    _check_queue(infeed_queue)
    values = listed(inputs)
    _check_arity(condition, values, infeed_queue, condition=True)
    _check_arity(body, values, infeed_queue, condition=False)
    bound = Bound.of(maximum_iterations, use_while_v1)
    step = _wrap_body(body, values, infeed_queue, bound=bound)
    limit = None
    if maximum_iterations is not None:
        limit = run_time_value("maximum_iterations", maximum_iterations)
    user_condition = as_user_function(condition)

    def continues(i: Tensor, *state: Tensor) -> Tensor:
        holds = as_condition(user_condition(*state))
        return holds if limit is None else tf.logical_and(i < limit, holds)

    first = tf.constant(0, tf.int32 if limit is None else limit.dtype)
    with loop_version(use_while_v1):
        count, *results = _build_while(bound, continues, step, [first, *values])
    check_dequeued(infeed_queue)
    return _unlisted(count, results, values)


def _build_while(
    bound: Bound, condition: NestFunction, body: NestFunction, values: list[Tensor]
) -> list[Tensor]:
    """Builds tf.while_loop with sequential iterations.

    Its name is empty, so that it does not change the names of the body's ops and of
    variables that the body creates: checkpoints rely on them.
    """
    with graph_entered():
        results = tf.while_loop(
            condition,
            body,
            values,
            parallel_iterations=1,
            maximum_iterations=bound.argument,
            name="",
        )
    bound.note(results[0])
    return list(results)


def _wrap_body(
    body: NestFunction,
    values: list[Tensor],
    infeed_queue: IPUInfeedQueue | None,
    limit: Tensor | None = None,
    bound: Bound | None = None,
) -> Callable[..., list[Tensor]]:
    """Wraps the body for TensorFlow's loop: counter and carried tensors in and out.

    The outputs depend on the operations that the body returns, the dequeue, and ops for
    the host that have an effect: a version 1 loop would otherwise not run them.

    `limit` is the number of iterations, if it is known before: see TrainingLoop.
    """
    runs = as_user_function(body)

    def step(i: Tensor, *state: Tensor) -> list[Tensor]:
        if bound is not None and bound.context is not None:
            graph = tf.compat.v1.get_default_graph()
            graph._get_control_flow_context()._maximum_iterations = bound.context
        arguments: list[Nest] = []
        keywords: dict[str, Nest] = {}
        operations: list[Operation] = []
        if infeed_queue is not None:
            element = infeed_queue._dequeue()
            arguments, keywords = body_arguments(element)
            if not tf.executing_eagerly():
                operations = [tensor.op for tensor in tf.nest.flatten(element)]
        if limit is None:  # the number is known afterwards: plain_loops.py
            loop = TrainingLoop() if tf.executing_eagerly() else training_loop()
        else:
            loop = TrainingLoop(i, limit if tf.executing_eagerly() else limit.op)
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        first_op = 0 if graph is None else len(graph.get_operations())
        with inside(loop):
            results = runs(*state, *arguments, **keywords)
        if graph is not None:
            operations += outside_compilation.effects(graph, first_op)
        tensors, more = split_results(results)
        check_results(tensors, values)
        if tf.executing_eagerly():
            return [i + 1, *tensors]
        more += loop.refused_uses(tensors)
        # A TensorArray has no op, but its flow has.
        flows: list[Any] = [getattr(tensor, "flow", tensor) for tensor in tensors]
        needed = [*operations, *more, *(flow.op for flow in flows)]
        if unneeded_enqueues(graph, first_op, needed):
            LOGGER.warning(NOT_RUN, getattr(body, "__name__", "body"))
        with tf.control_dependencies(operations + more):
            return [passed_on(tensor) for tensor in [i + 1, *tensors]]

    return step


def _unlisted(count: Tensor, results: list[Tensor], values: list[Tensor]) -> Nest:
    """Returns one tensor alone, several as a list; without any an operation, or `count`."""
    if not values:
        graph = tf.compat.v1.get_default_graph()
        # A function can return a tensor, but not an operation.
        if tf.executing_eagerly() or graph.building_function:
            return count
        return tf.group(count)
    return results[0] if len(results) == 1 else results


def _check_queue(infeed_queue: object) -> None:
    if infeed_queue is not None and not hasattr(infeed_queue, "_dequeue"):
        raise TypeError(
            "`infeed_queue` must be an IPUInfeedQueue, got "
            f"{type(infeed_queue).__name__}. A dataset is fed through "
            "IPUInfeedQueue(dataset)."
        )


def check_dequeued(infeed_queue: IPUInfeedQueue | None) -> None:
    """Raises ValueError if the loop's body has not dequeued its infeed."""
    if infeed_queue is not None and not infeed_queue.dequeued:
        raise ValueError("The infeed queue has not been dequeued.")


def _check_arity(
    function: NestFunction,
    values: list[Tensor],
    infeed_queue: IPUInfeedQueue | None,
    *,
    condition: bool,
) -> None:
    """Raises TypeError before tracing if the function does not accept its arguments."""
    arguments: list[Nest] = []
    keywords: dict[str, Nest] = {}
    if infeed_queue is not None and not condition:
        arguments, keywords = body_arguments(infeed_queue._structure)
    signature = own_signature(function)
    if signature is None:
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
            if values and not tf.executing_eagerly()
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
