"""Gradients in the middle of a model: captured, accumulated, seen and used."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from models import WIDTH, data, loss_of, v1, weights
from pipeline_arguments import STYLES
from replicated import on

from ipufeed.device.program.outside_compilation import building
from ipufeed.parallel.optimizers.gradient_capture import (
    GradientCaptureContext,
    GradientCaptureTape,
    capture_upstream_gradients,
)
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]

RATE = 0.1


class Seeing(v1.train.GradientDescentOptimizer):
    """Keeps what it is given of captured gradients in variables."""

    def __init__(self, kept):
        super().__init__(RATE)
        self.kept = kept

    def apply_gradients(
        self, grads_and_vars, global_step=None, name=None, *, captured_grads
    ):
        update = super().apply_gradients(grads_and_vars, global_step, name)
        for tag, (gradient,) in captured_grads.items():
            seen = self.kept[tag].assign(gradient, read_value=False)
            update = update if seen is None else tf.group(update, seen)
        return update


class Supporting(Seeing):
    """Says by an attribute that it takes them, and not by its parameters."""

    supports_captured_grads = True

    def apply_gradients(self, *arguments, **keywords):
        return super().apply_gradients(*arguments, **keywords)


def expected(count, executions=1, reduce=np.sum):
    """Of each execution, and of each of its mini-batches, the two captured gradients."""
    xs, ys = data(count * executions)
    variables = [tf.Variable(each) for each in weights(2)]
    found = {"first": [], "second": []}
    with tf.device("cpu"):
        for execution in range(executions):
            total = [0.0, 0.0]
            for number in range(execution * count, (execution + 1) * count):
                with tf.GradientTape() as tape:
                    first = tf.tanh(xs[number] @ variables[0])
                    second = tf.tanh(first @ variables[1])
                    loss = loss_of(second, ys[number])
                gradients = tape.gradient(loss, [first, second, *variables])
                found["first"].append(gradients[0].numpy())
                found["second"].append(gradients[1].numpy())
                total = [a + b for a, b in zip(total, gradients[2:], strict=True)]
            factor = 1 / count if reduce is np.mean else 1.0
            for variable, gradient in zip(variables, total, strict=True):
                variable.assign_sub(RATE * factor * gradient)
    return {
        tag: np.reshape(values, (executions, count, *values[0].shape))
        for tag, values in found.items()
    }


def train(ready, count, make_output, **arguments):
    """Runs a pipeline of two stages, in each of which a tensor is marked."""
    infeed = ready.feed(lambda: tf.data.Dataset.from_tensor_slices(data(1000)))
    outfeed = IPUOutfeedQueue()
    variables = [
        ready.variable(each, f"weight{number}")
        for number, each in enumerate(weights(2))
    ]

    def first(x, y):
        return capture_upstream_gradients(tf.tanh(x @ variables[0]), tag="first"), y

    def second(x, y):
        x = capture_upstream_gradients(tf.tanh(x @ variables[1]), tag="second")
        return loss_of(x, y)

    def program():
        return pipeline(
            [first, second],
            count,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss: make_output(loss, variables),
            **arguments,
        )

    ready.run(program)
    return variables


def dequeued(ready, queue):
    """By tag, what a queue has got of the tensor that is marked with it."""
    return {tag: each for tag, (each,) in ready.read(queue.dequeue()).items()}


def assert_close(found, wanted):
    assert set(found) == set(wanted)
    for tag, values in wanted.items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(found[tag], values, atol=1e-5 * scale)


def captured_by(queue):
    """An optimizer_function whose gradients a queue gets."""
    return lambda loss, _: OptimizerFunctionOutput(
        v1.train.GradientDescentOptimizer(RATE),
        loss,
        gradient_capture_context=GradientCaptureContext(),
        captured_gradient_outfeed=queue,
    )


@pytest.mark.parametrize(
    ("style", "kind", "reduction"),
    [
        *(
            ("function", kind, reduction)
            for kind in PipelineSchedule
            for reduction in ("SUM", "MEAN", "RUNNING_MEAN")
        ),
        ("graph", PipelineSchedule.Grouped, "SUM"),
        ("graph", PipelineSchedule.Sequential, "RUNNING_MEAN"),
    ],
)
def test_a_queue_gets_what_has_been_accumulated(style, kind, reduction):
    """Once in each execution, by the tensors' tags, reduced as other gradients are."""
    queue = IPUOutfeedQueue()
    with on(2, style) as ready:
        train(
            ready,
            4,
            captured_by(queue),
            repeat_count=2,
            pipeline_schedule=kind,
            reduction_method=reduction,
        )
        found = dequeued(ready, queue)
    reduce = np.sum if reduction == "SUM" else np.mean

    wanted = expected(4, 2, reduce)
    assert_close(found, {tag: reduce(values, axis=1) for tag, values in wanted.items()})


@pytest.mark.parametrize("style", STYLES)
def test_without_accumulation_a_queue_gets_each_mini_batch(style):
    """In their order, each with its own gradient."""
    queue = IPUOutfeedQueue()
    with on(2, style) as ready:
        train(
            ready,
            4,
            captured_by(queue),
            repeat_count=2,
            gradient_accumulation_for_captured_grads=False,
        )
        found = dequeued(ready, queue)

    assert_close(
        found,
        {
            tag: values.reshape(8, *values.shape[2:])
            for tag, values in expected(4, 2).items()
        },
    )


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("accumulates", "kind"), [(1, Seeing), (0, Supporting)])
def test_an_optimizer_that_asks_gets_captured_gradients(accumulates, kind, style):
    """As `captured_grads`: what has been accumulated, or the last mini-batch's."""
    wanted, zeros = expected(8), np.zeros((2, WIDTH), np.float32)
    with on(2, style) as ready:
        kept = {tag: ready.variable(zeros, tag) for tag in wanted}
        train(
            ready,
            8,
            lambda loss, _: OptimizerFunctionOutput(
                kind(kept), loss, gradient_capture_context=GradientCaptureContext()
            ),
            gradient_accumulation_for_captured_grads=bool(accumulates),
        )
        found = ready.read(kept)

    assert_close(
        found,
        {
            tag: values[0].sum(axis=0) if accumulates else values[0, -1]
            for tag, values in wanted.items()
        },
    )


def test_a_keras_optimizer_has_a_tape_that_captures():
    """In place of a context; what is trained is the same as without."""
    queue = IPUOutfeedQueue()
    optimizers = [tf.keras.optimizers.SGD(RATE) for _ in range(2)]

    def output(loss, variables):
        tape = GradientCaptureTape()
        with tape:
            for variable in variables:
                tape.watch(variable)
        return OptimizerFunctionOutput(
            optimizers[0], loss, tape=tape, captured_gradient_outfeed=queue
        )

    with on(2) as ready:
        seen = train(ready, 4, output)
        plain = train(
            ready,
            4,
            lambda loss, variables: OptimizerFunctionOutput(
                optimizers[1],
                loss,
                variables=variables,
                gradient_capture_context=GradientCaptureContext(),
            ),
        )
        found = dequeued(ready, queue)

    wanted = expected(4)
    assert_close(found, {tag: values.sum(axis=1) for tag, values in wanted.items()})
    for one, other in zip(seen, plain, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("style", STYLES)
def test_copies_of_a_pipeline_give_what_each_has_captured(style):
    """With a dimension for the copies, whose mini-batches are every second."""
    queue = IPUOutfeedQueue()
    with on(4, style) as ready:
        train(ready, 4, captured_by(queue))
        found = dequeued(ready, queue)
    all_of_them = expected(8)

    assert_close(
        {tag: each[0] for tag, each in found.items()},
        {
            tag: np.stack([values[0, r::2].sum(axis=0) for r in (0, 1)])
            for tag, values in all_of_them.items()
        },
    )


def test_a_queue_without_a_marked_tensor_is_refused():
    """It would never get anything."""
    queue = IPUOutfeedQueue()
    with tf.Graph().as_default(), building(traced=False):
        weight = v1.get_variable("w", [2], use_resource=True)

        def output(loss):
            return captured_by(queue)(loss, [])

        with pytest.raises(ValueError, match="mark tensors in the stages with"):
            pipeline(
                [lambda x: x * weight, tf.reduce_sum],
                4,
                inputs=[tf.zeros([2])],
                outfeed_queue=IPUOutfeedQueue(),
                optimizer_function=output,
            )


# ---- Without a pipeline


@pytest.mark.parametrize("style", STYLES)
def test_a_context_has_the_gradients_of_a_program(style):
    """Built by tf.gradients, of the same backward pass."""
    with on(1, style) as ready:

        def net(x):
            marked = capture_upstream_gradients(x * 3.0, tag="tripled")
            with GradientCaptureContext() as context:
                (gradient,) = tf.gradients(tf.reduce_sum(marked**2), x)
            (captured,) = context.captured_gradients["tripled"]
            return gradient, captured

        gradient, captured = ready.run(net, [1.0, 2.0])

    np.testing.assert_allclose(captured, [6.0, 12.0])
    np.testing.assert_allclose(gradient, [18.0, 36.0])


def computed(style, net, value):
    """What a function gives in a program of a style, or at once in eager mode."""
    if style == "eager":
        return net(tf.constant(value))
    with on(1, style) as ready:
        return ready.run(net, value)


def test_rows_that_are_taken_have_a_gradient_of_the_whole_tensor():
    """A gather's gradient is slices, which a queue does not take."""
    queue, outfeed = IPUOutfeedQueue(), IPUOutfeedQueue()
    with on(2, "function") as ready:
        infeed = ready.feed(lambda: tf.data.Dataset.from_tensors([2, 0, 2]).repeat())
        table = ready.variable(np.ones([4, 2], np.float32), "table")
        stages = [
            lambda ids: (capture_upstream_gradients(table * 2.0, tag="table"), ids),
            lambda rows, ids: tf.reduce_sum(tf.gather(rows, ids)),
        ]
        function = functools.partial(captured_by(queue), _=None)
        feeds = {"infeed_queue": infeed, "outfeed_queue": outfeed}
        ready.run(lambda: pipeline(stages, 4, optimizer_function=function, **feeds))
        found = dequeued(ready, queue)["table"]
    assert found.reshape([4, 2]).tolist() == [[4, 4], [0, 0], [8, 8], [0, 0]]


def test_a_tape_has_the_gradients_of_its_last_call():
    """In eager mode: by tags, a list of one for each tensor of a structure."""
    x = tf.constant([1.0, 2.0])
    with GradientCaptureTape(persistent=True) as tape:
        tape.watch(x)
        pair = capture_upstream_gradients({"a": x * 3.0, "b": [x * 5.0]}, tag="pair")
        again = capture_upstream_gradients(x)
        y = tf.reduce_sum(pair["a"] * pair["b"][0] + again)
    for _ in range(2):
        tape.gradient(y, x)

    found = {
        tag: [gradient.numpy().tolist() for gradient in each]
        for tag, each in tape.captured_gradients.items()
    }
    assert found == {"pair": [[5.0, 10.0], [3.0, 6.0]], "": [[1.0, 1.0]]}


@pytest.mark.parametrize("style", ["eager", *STYLES])
def test_a_tag_is_used_once(style):
    """Two calls of one tag are refused when gradients are built."""

    def net(x):
        with GradientCaptureTape() as tape:
            tape.watch(x)
            y = capture_upstream_gradients(x, "x") * capture_upstream_gradients(x, "x")
        return tape.gradient(y, x)

    with pytest.raises(ValueError, match="Gradient exists in the captured grads frame"):
        computed(style, net, 2.0)


@pytest.mark.parametrize("style", ["eager", *STYLES])
def test_the_innermost_context_gets_them(style):
    """And the one around it nothing."""

    def net(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = capture_upstream_gradients(args=x, tag="x") ** 2
        with GradientCaptureContext() as around, GradientCaptureContext() as inner:
            tape.gradient(y, x)
        assert not around.captured_gradients
        return inner.captured_gradients["x"]

    assert computed(style, net, 2.0) == [4.0]


@pytest.mark.parametrize("style", ["eager", *STYLES])
def test_outside_of_contexts_gradients_are_refused(style):
    """The values alone are not; so it is in TensorFlow's own tape."""

    def net(x):
        return [capture_upstream_gradients(x, tag="x") ** 2]

    def with_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            (y,) = net(x)
        return tape.gradient(y, x)

    assert computed(style, net, 2.0) == [4.0]
    with pytest.raises(RuntimeError, match="may only be used within the context of"):
        computed(style, with_gradient, 2.0)


def test_an_integer_and_a_number_as_a_tag_are_refused():
    """The one has no gradient, the other is a key of what the queue gets."""
    with pytest.raises(TypeError, match="which have gradients, got int32"):
        capture_upstream_gradients(tf.constant(1))
    with pytest.raises(TypeError, match=r"`tag` of .* must be a str, got int 3"):
        capture_upstream_gradients(tf.constant(1.0), tag=3)
