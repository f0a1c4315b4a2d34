"""What the loops promise: the body's count, its state, its elements in order."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from styles import FunctionStyle, only

from ipufeed.device.program import compiler, loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.queues import IPUOutfeedQueue

v1 = tf.compat.v1


def floats():
    """0.0, 1.0, and so on."""
    return tf.data.Dataset.range(1000).map(lambda n: tf.cast(n, tf.float32))


@pytest.mark.parametrize("times", [0, 1, 10])
def test_a_body_runs_as_often_as_asked(style, times):
    """Also not at all: then the inputs come back."""
    result = style.run(lambda x: style.repeat(times, lambda x: x * 2, [x]), 1.0)

    assert only(result) == 2.0**times


def test_a_negative_count_of_a_tensor_runs_nothing(style):
    """As `range` does; it is known when the program runs."""

    def program(x):
        return style.repeat(tf.constant(-3), lambda x: x * 2, [x])

    assert only(style.run(program, 1.0)) == 1.0


def test_a_single_input_needs_no_list(style):
    """And one result comes back without one."""

    def net(x):
        result = style.repeat(3, lambda x: x + 1, x)
        assert isinstance(result, tf.Tensor)
        return result

    assert only(style.run(net, 0.5)) == 3.5


def test_several_values_come_back_as_a_list(style):
    """In order, each with its dtype and shape."""

    def net(count, vector):
        result = style.repeat(4, lambda c, v: (c + 1, v * 2), [count, vector])
        assert isinstance(result, list)
        return result

    count, vector = style.run(net, np.int32(0), np.ones([2, 3], np.float32))

    assert count == 4
    assert count.dtype == np.int32
    np.testing.assert_array_equal(vector, np.full([2, 3], 16.0))


def test_the_count_can_be_an_input_of_the_program(style):
    """One program, three counts."""
    run = style.build(
        lambda n, x: style.repeat(n, lambda x: x + 1, [x]), np.int32(0), 0.0
    )

    assert [only(run(np.int32(n), 1.0)) for n in (0, 1, 7)] == [1.0, 2.0, 8.0]


def test_elements_come_after_the_carried_values(style):
    """The body's first arguments are its own, the rest the dataset's."""
    infeed = style.feed(lambda: floats().map(lambda n: (n, n * 10)))

    def body(total, ones, tens):
        return total + ones + tens

    result = style.run(lambda x: style.repeat(4, body, [x], infeed), 0.5)

    assert only(result) == 0.5 + 11 * (0 + 1 + 2 + 3)


def test_a_dict_becomes_keyword_arguments(style):
    """In any order of the body's arguments."""
    infeed = style.feed(lambda: floats().map(lambda n: {"one": n, "two": 2 * n}))
    outfeed = IPUOutfeedQueue()

    def body(total, two, one):
        return total + 1.0, outfeed.enqueue({"one": one, "two": two})

    style.run(lambda x: style.repeat(3, body, [x], infeed), 0.0)
    results = style.read(outfeed.dequeue())

    assert results["one"].tolist() == [0.0, 1.0, 2.0]
    assert results["two"].tolist() == [0.0, 2.0, 4.0]


def test_a_body_without_inputs_runs_for_its_enqueue(style):
    """What it returns is an operation; nothing is lost."""
    infeed, outfeed = style.feed(floats), IPUOutfeedQueue()

    style.run(lambda: style.repeat(5, outfeed.enqueue, infeed_queue=infeed))

    assert style.read(outfeed.dequeue()).tolist() == [0, 1, 2, 3, 4]


def test_a_body_may_return_nothing(style):
    """It takes its elements all the same."""
    infeed, outfeed = style.feed(floats), IPUOutfeedQueue()
    style.run(lambda: style.repeat(5, lambda x: None, infeed_queue=infeed))

    style.run(lambda: style.repeat(2, outfeed.enqueue, infeed_queue=infeed))

    assert style.read(outfeed.dequeue()).tolist() == [5.0, 6.0]


def test_loops_nest_with_a_queue_each(style):
    """The inner one takes its elements in each pass of the outer one."""
    inner_feed = style.feed(lambda: floats().map(lambda n: n * 100))
    outer_feed, outfeed = style.feed(floats), IPUOutfeedQueue()

    def outer(total, x):
        total = style.repeat(3, lambda t, y: t + y, [total], inner_feed)
        return total, outfeed.enqueue((x, total))

    style.run(lambda t: style.repeat(2, outer, [t], outer_feed), 0.0)
    xs, totals = style.read(outfeed.dequeue())

    assert xs.tolist() == [0.0, 1.0]
    assert totals.tolist() == [300.0, 1500.0]


def test_variables_keep_what_a_loop_assigns(style):
    """Each iteration sees the one before, and the next program the last of them."""
    weight = style.variable(1.0, "weight")

    def body(total):
        weight.assign(weight * 2)
        with tf.control_dependencies([weight.assign_add(1.0)]):
            return total + weight.read_value()

    def ordered(total):  # a version 1 graph runs only what is fetched
        with tf.control_dependencies([weight.assign(weight * 2)]):
            after = weight.assign_add(1.0)
        with tf.control_dependencies([after]):
            return total + weight.read_value()

    chosen = body if tf.executing_eagerly() else ordered
    run = style.build(lambda x: style.repeat(2, chosen, [x]), 0.0)

    assert only(run(0.0)) == 3.0 + 7.0
    assert only(run(0.0)) == 15.0 + 31.0
    assert style.read(weight) == 31.0


def test_a_while_loop_stops_when_its_condition_fails(style):
    """The condition sees the carried values and never the element."""
    infeed = style.feed(floats)

    def net(total):
        return style.while_loop(
            lambda total: total < 10.0, lambda t, x: t + x, [total], infeed
        )

    assert only(style.run(net, 0.0)) == 10.0  # 0 + 1 + 2 + 3 + 4
    assert only(style.run(net, 0.0)) == 11.0  # 5 + 6


def test_a_while_loop_has_a_bound(style):
    """`maximum_iterations` ends what the condition would not."""

    def net(x):
        return style.while_loop(
            lambda x: x < 1e9, lambda x: x + 1, [x], maximum_iterations=7
        )

    assert only(style.run(net, 0.0)) == 7.0


def test_a_while_loop_may_never_begin(style):
    """No element is taken."""
    infeed, outfeed = style.feed(floats), IPUOutfeedQueue()
    never = style.run(
        lambda x: style.while_loop(lambda t: t > 0, lambda t, x: t + x, [x], infeed),
        -1.0,
    )

    style.run(lambda: style.repeat(1, outfeed.enqueue, infeed_queue=infeed))

    assert only(never) == -1.0
    assert style.read(outfeed.dequeue()).tolist() == [0.0]


def test_a_condition_may_be_of_one_element(style):
    """Its shape may be [1], as a comparison of vectors of one gives."""
    result = style.run(
        lambda x: style.while_loop(lambda x: x < 3.0, lambda x: x + 1, [x]),
        np.zeros([1], np.float32),
    )

    np.testing.assert_array_equal(only(result), [3.0])


def test_operations_before_tensors_are_refused(style):
    """With the words of the original."""

    def body(x):
        return tf.raw_ops.NoOp(), x

    with pytest.raises(ValueError, match="zero or more Tensor values followed by zero"):
        style.run(lambda x: style.repeat(2, body, [x]), 1.0)


def test_another_dtype_is_refused(style):
    """Before anything is compiled, with both lists of dtypes."""
    with pytest.raises(TypeError, match=r"Mismatch between input types .* use tf.cast"):
        style.run(lambda x: style.repeat(2, lambda x: tf.cast(x, tf.int32), [x]), 1.0)


def test_a_missing_result_is_refused(style):
    """A body that forgets a carried value is an error."""
    with pytest.raises(TypeError, match=r"Mismatch .*\['float32'\] vs \[\]"):
        style.run(lambda x: style.repeat(2, lambda x: None, [x]), 1.0)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda: 0.0, "You specified 1 inputs: .* and 1 additional inputs from infeed"),
        (lambda a, b, c: a, "but the computation needs 3"),
        (lambda a, *, b: a, "but the computation needs 2"),
    ],
)
def test_a_body_of_other_arity_is_refused(style, body, words):
    """Before it is called: with the numbers of what it gets and what it takes."""
    infeed = style.feed(floats)

    with pytest.raises(TypeError, match=words) as caught:
        style.run(lambda x: style.repeat(2, body, [x], infeed), 1.0)

    assert "loop body function cannot be called" in str(caught.value)


def test_a_decorator_may_add_arguments_to_a_body(style):
    """What counts is what the decorated function takes."""

    def with_one(function):
        return functools.wraps(function)(lambda *values: function(1.0, *values))

    body = with_one(lambda one, x: x + one)
    assert style.run(lambda x: style.repeat(3, body, [x]), 1.0) == [4.0]


def test_a_condition_of_other_arity_is_refused(style):
    """It is reminded that the infeed is not for it."""
    infeed = style.feed(floats)

    with pytest.raises(TypeError, match="infeed is not passed to the loop condition"):
        style.run(
            lambda x: style.while_loop(
                lambda t, x: True, lambda t, x: t + x, [x], infeed
            ),
            1.0,
        )


def test_a_dict_is_not_carried():
    """The error says what is."""
    with pytest.raises(
        TypeError, match=r"carries tensors, got a dict\. Give its values"
    ):
        loops.repeat(2, lambda x: x, [{"a": 1.0}])


def test_an_infeed_that_is_not_a_queue_is_refused(style):
    """With what must be there."""
    with pytest.raises(TypeError, match="`infeed_queue` must be an IPUInfeedQueue"):
        style.run(lambda x: style.repeat(2, lambda x, y: x, [x], "queue"), 1.0)


def test_another_count_runs_the_same_program():
    """The count is an input: the body is traced, and compiled, once."""
    traced = []

    @tf.function(jit_compile=True)
    def program(n):
        traced.append(1)
        return loops.repeat(n, lambda x: x + 1.0, [0.0])

    with tf.device("/device:IPU:0"):
        results = [float(program(tf.constant(n))) for n in (3, 5, 9)]

    assert results == [3.0, 5.0, 9.0]
    assert len(traced) == 1


def grows(x):
    """Written as Python: a tf.function around it makes graph control flow of it."""
    if x < 4.0:
        x = x * 2
    else:
        for _ in tf.range(3):
            x += 1.0
    return x


def test_autograph_rewrites_the_body_and_the_condition_where_it_rewrites_their_caller():
    """Wherever they are defined, `if` and `for` on tensors work in them."""

    @tf.function(jit_compile=True)
    def program():
        return loops.repeat(3, grows, [1.0]), loops.while_loop(
            lambda x: x < 100.0 and x > 0.0, grows, [90.0]
        )

    with tf.device("/device:IPU:0"):
        repeated, looped = program()

    assert float(repeated) == 7.0
    assert float(looped) == 102.0


def test_autograph_leaves_our_own_code_alone():
    """A traceback from a body shows files that exist, and ours as they are written."""

    @tf.function
    def program():
        return loops.repeat(3, lambda x: x.nonsense, [1.0])

    with pytest.raises(AttributeError) as caught:
        program()

    frames = "".join(map(str, caught.traceback))
    assert "ipufeed/device/program/loops.py" in frames
    assert "tf__repeat" not in frames


@pytest.mark.parametrize("kind", ["repeat", "while_loop"])
def test_a_loop_has_gradients(style, kind):
    """By the inputs and by variables of the body, where the count is an int."""
    weight = style.variable(2.0, "weight")

    def body(y):
        return tf.cond(y > 100.0, lambda: y, lambda: y * weight)

    def looped(x):
        if kind == "repeat":
            return style.repeat(3, body, [x])
        return style.while_loop(lambda y: y < 1e9, body, [x], maximum_iterations=3)

    def net(x):
        if isinstance(style, FunctionStyle):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = looped(x)
            return tape.gradient(y, [x, weight])
        return tf.gradients(looped(x), [x, weight])

    # x * w^3
    assert style.run(net, 5.0) == [8.0, 60.0]


def test_a_body_s_names_are_those_of_no_loop():
    """Checkpoints know variables that layers make in it by them."""
    names = []

    def body(x):
        with v1.variable_scope("stage"):
            weight = v1.get_variable("kernel", [], use_resource=True)
        y = tf.multiply(x, weight, name="product")
        names.extend([weight.name, y.name])
        return y

    with tf.Graph().as_default(), ipu_scope("/device:IPU:0"):
        compiler.compile(lambda x: loops.repeat(2, body, [x]), [tf.constant(1.0)])

    assert names == ["stage/kernel:0", "product:0"]


def test_a_tensor_array_is_carried(style):
    """As it is, and not as a tensor."""

    def net(x):
        array = tf.TensorArray(tf.float32, 3, element_shape=[])
        _, array = style.repeat(
            3, lambda i, each: (i + 1, each.write(i, x)), [tf.constant(0), array]
        )
        return array.stack()

    assert only(style.run(net, 2.0)).tolist() == [2.0, 2.0, 2.0]
