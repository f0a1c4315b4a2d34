"""Functions of a shared library, and references in place of Poplar's libraries."""

import numpy as np
import pytest
import styles
import tensorflow as tf
from user_libraries import PREAMBLE, compiled, copies

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.errors import RefusedError
from ipufeed.ops import references
from ipufeed.ops.custom_ops import cpu_user_operation, precompiled_user_op
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system", copies.__name__)
v1 = tf.compat.v1
SOURCE = (
    PREAMBLE
    + r"""
extern "C" {
int32_t custom_op_api_level = LEVEL;
// x * y + the length of the attributes
void Callback(In data, Counts counts, Out outputs, Text attributes, Text name) {
  if (name == "fails") throw std::runtime_error("the library says no");
  auto* x = static_cast<const float*>(data[0]);
  auto* y = static_cast<const float*>(data[1]);
  auto* z = static_cast<float*>(outputs[0]);
  for (uint32_t i = 0; i < counts[0]; ++i) z[i] = x[i] * y[i] + attributes.size();
}
// data: gradient | output | x, y
void Callback_grad(In data, Counts counts, Out outputs, Text attributes, Text name) {
  auto* dz = static_cast<const float*>(data[0]);
  for (size_t k = 0; k < outputs.size(); ++k) {
    auto* other = static_cast<const float*>(data[3 - k]);
    auto* result = static_cast<float*>(outputs[k]);
    for (uint32_t i = 0; i < counts[2]; ++i) {
      result[i] = dz[i] * other[i] * (attributes.size() + 1);
    }
  }
}
}
"""
)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compiles the source with a level of the interface."""
    folder = tmp_path_factory.mktemp("user_ops")

    def build(level=5):
        path = folder / f"lib{level}.so"
        if not path.exists():
            compiled(path, SOURCE, f"-DLEVEL={level}")
        return str(path)

    return build


OUTS = {"output_types": [tf.float32], "output_shapes": [tf.TensorShape([3])]}
X, Y = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)


@pytest.mark.parametrize("style", styles.TWO, ids=", ".join, indirect=True)
def test_a_library_computes_in_each_iteration(style, library):
    """With its attributes and the gradients of both inputs, or of one."""
    outfeed = IPUOutfeedQueue()
    path = library()

    def body(x):
        y = tf.constant(Y)
        (z,) = cpu_user_operation(
            [x, y], path, OUTS, attributes="ab", gradient_attributes="abc"
        )
        (w,) = cpu_user_operation([x, y], path, OUTS, inputs_with_gradients=[0])
        dx, dy = tf.gradients(z, [x, y])
        (only,) = tf.gradients(w, [x])
        assert tf.gradients(w, [y]) == [None]
        return x + 1, outfeed.enqueue([z, dx, dy, only])

    style.run(lambda: style.repeat(2, body, [tf.constant(X)]))
    z, dx, dy, only = style.read(outfeed.dequeue())
    for step in range(2):
        np.testing.assert_array_equal(z[step], (X + step) * Y + 2)
        np.testing.assert_array_equal(dx[step], 4 * Y)
        np.testing.assert_array_equal(dy[step], 4 * (X + step))
        np.testing.assert_array_equal(only[step], Y)


@pytest.fixture
def registered():
    """Registers references that the test's end forgets."""
    names = []

    def put(library, op_name="Build", **functions):
        names.append((library, op_name))
        references.register(library, op_name, **functions)

    yield put
    for each in names:
        references.unregister(*each)


@pytest.mark.parametrize("kind", ["library", "reference"])
def test_it_computes_in_a_stage_that_is_recomputed(library, registered, kind):
    """A library's result is kept; a reference's gradient takes the place of its own."""
    registered(
        "libmultiply.so",
        forward=lambda inputs, attributes, outs: [tf.multiply(*inputs)],
        gradient=lambda gradients, outputs, inputs, attributes, index: [
            7 * gradients[0] * inputs[1],
            None,
        ],
    )

    def product(x, y):
        if kind == "library":
            return cpu_user_operation([x, y], library(), OUTS)[0]
        return precompiled_user_op([x, y], "/none/libmultiply.so", outs=OUTS)[0]

    config = IPUConfig()
    config.auto_select_ipus = 2
    config.allow_recompute = True
    config.configure_ipu_system()
    strategy = IPUStrategy()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(Y).repeat())
    outfeed = IPUOutfeedQueue()
    _ = infeed.initializer
    with strategy.scope():
        weights = tf.Variable(X)

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [
                lambda y: product(weights, y),
                tf.reduce_sum,
            ],
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(1.0), loss
            ),
        )

    with strategy.scope():
        strategy.run(program)
    np.testing.assert_array_equal(outfeed.dequeue()[0], [np.sum(X * Y)] * 4)
    factor = 1 if kind == "library" else 7
    np.testing.assert_array_equal(weights, X - 4 * factor * Y)


def test_what_is_wrong_with_a_library_is_an_error(library, tmp_path):
    """The level, the symbol, the file, an exception, and attributes of other types."""
    words = (
        r"lib4.so, op name Callback is 4, expected 5.*int32_t custom_op_api_level = 5;"
    )
    with pytest.raises(tf.errors.InternalError, match=words):
        cpu_user_operation([X, Y], library(4), OUTS)
    none = compiled(tmp_path / "libnone.so", "int other;")
    with pytest.raises(
        tf.errors.InternalError, match=r"is 0, expected 5.*0: none is decl"
    ):
        cpu_user_operation([X, Y], none, OUTS)
    with pytest.raises(
        tf.errors.NotFoundError, match=r"lib5.so: undefined symbol: Other"
    ):
        cpu_user_operation([X, Y], library(), OUTS, op_name="Other")
    with pytest.raises(tf.errors.NotFoundError, match=r"none.so: No such file"):
        cpu_user_operation([X, Y], str(tmp_path / "none.so"), OUTS)
    text = tmp_path / "text.so"
    text.write_text("text")
    with pytest.raises(tf.errors.NotFoundError, match=r"text.so: file too short"):
        cpu_user_operation([X, Y], text, OUTS)
    with pytest.raises(tf.errors.NotFoundError, match="it is not a file"):
        cpu_user_operation([X, Y], tmp_path, OUTS)
    with pytest.raises(tf.errors.InternalError, match="the library says no"):
        cpu_user_operation([X, Y], library(), OUTS, name="fails")
    for function in (cpu_user_operation, precompiled_user_op):
        with pytest.raises(ValueError, match="Expected attributes to be a 'str' type"):
            function([X], "lib.so", attributes=5)
        with pytest.raises(ValueError, match="Expected gradient_attributes to be"):
            function([X], "lib.so", gradient_attributes=5)


ONE = {"output_types": [tf.float32], "output_shapes": [[1]]}
OUTS_REFUSED = {
    "no dict": ([tf.int32], TypeError, r"or None, got list \[tf.int32\]"),
    "no types": ({"output_shapes": [[1]]}, ValueError, "got no 'output_types'"),
    "no shapes": ({"output_types": [tf.int32]}, ValueError, "got no 'output_shapes'"),
    "no list": (
        {"output_types": tf.int32, "output_shapes": [[1]]},
        TypeError,
        r"\['output_types'\] must be a list with an element for each output, got DType",
    ),
    "one shape": (
        {"output_types": [tf.int32], "output_shapes": tf.TensorShape([1])},
        TypeError,
        r"\['output_shapes'\] must be a list .* got TensorShape",
    ),
    "no dtype": (
        {"output_types": ["flot"], "output_shapes": [[1]]},
        TypeError,
        r"\['output_types'\]\[0\] must be a dtype, got str 'flot'",
    ),
    "strings": (
        {"output_types": [tf.string], "output_shapes": [[1]]},
        TypeError,
        "must be of numbers or bools, got string",
    ),
    "no shape": (
        {"output_types": [tf.int32], "output_shapes": ["ab"]},
        TypeError,
        r"\['output_shapes'\]\[0\] must be a shape, got str 'ab'",
    ),
    "fewer shapes": (
        {"output_types": [tf.int32], "output_shapes": []},
        ValueError,
        "as many output_shapes as output_types, got 0 and 1",
    ),
}


@pytest.mark.parametrize("name", OUTS_REFUSED)
@pytest.mark.parametrize("function", [cpu_user_operation, precompiled_user_op])
def test_outputs_that_are_not_described_are_refused(function, name):
    """With what `outs` must be, and what it was."""
    outs, error, words = OUTS_REFUSED[name]
    with pytest.raises(error, match=words):
        function([X], "lib.so", outs=outs)


OTHERS_REFUSED = {
    "a tensor": ({"inputs": X}, TypeError, "must be a list of tensors, got ndarray"),
    "text": ({"inputs": ["a"]}, TypeError, r"inputs\[0\] must be of numbers .* string"),
    "a path": (
        {"library_path": 3},
        TypeError,
        "`library_path` must be a path, got int",
    ),
    "a name": ({"name": None}, TypeError, "`name` must be a str, got NoneType None"),
    "a function": ({"op_name": 5}, TypeError, "`op_name` must be a str, got int 5"),
    "a NUL": ({"attributes": "a\0"}, ValueError, "`attributes` must not contain a NUL"),
    "a number": (
        {"inputs_with_gradients": 0},
        TypeError,
        "must be a list of the inputs' numbers, or None, got int 0",
    ),
    "no input": (
        {"inputs_with_gradients": [1]},
        ValueError,
        r"different numbers from 0 to 0, of the 1 inputs, got \[1\]",
    ),
}


@pytest.mark.parametrize("name", OTHERS_REFUSED)
@pytest.mark.parametrize("function", [cpu_user_operation, precompiled_user_op])
def test_arguments_of_other_types_are_refused(function, name):
    """Before a library is looked for."""
    keywords, error, words = OTHERS_REFUSED[name]
    given = {"inputs": [X], "library_path": "lib.so", "outs": ONE, **keywords}
    with pytest.raises(error, match=words):
        function(**given)


def test_shapes_of_a_librarys_outputs_are_defined():
    """Its function gets allocated memory."""
    outs = {"output_types": [tf.int32], "output_shapes": [[None]]}
    with pytest.raises(ValueError, match=r"must be fully defined, .* got \(None,\)"):
        cpu_user_operation([X], "lib.so", outs)


def test_a_reference_stands_in_for_a_library(registered):
    """By the file's name, with attributes, and with its operations' gradient."""

    def scaled_sum(inputs, attributes, outs):
        assert outs is OUTS
        return [(inputs[0] + inputs[1]) * float(attributes)]

    registered("/elsewhere/libsum.so", forward=scaled_sum)
    x, y = tf.constant(X), tf.constant(Y)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        (z,) = precompiled_user_op([x, y], "lib/libsum.so", outs=OUTS, attributes="2")
    assert [each.numpy().tolist() for each in tape.gradient(z, [x, y])] == [
        [2.0] * 3
    ] * 2
    np.testing.assert_array_equal(z, 2 * (X + Y))


@pytest.mark.parametrize("separate", [False, True])
def test_a_reference_has_a_gradient_of_its_own(registered, separate):
    """For the inputs that have one; with an index for each, if they are separate."""
    seen = []

    def gradient(gradients, outputs, inputs, attributes, index):
        seen.append((index, attributes))
        each = [gradients[0] * 10.0 * (number + 1) for number in range(3)]
        return each if index is None else [each[index]]

    registered(
        "*", "Op", forward=lambda inputs, *_: [tf.add_n(inputs)], gradient=gradient
    )
    inputs = [tf.constant(X)] * 2 + [tf.constant(Y)]
    inputs = [tf.identity(each) for each in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        (z,) = precompiled_user_op(
            inputs,
            "any.so",
            outs=OUTS,
            op_name="Op",
            separate_gradients=separate,
            inputs_with_gradients=[0, 2],
            gradient_attributes="g",
        )
    one, two, three = tape.gradient(z, inputs)
    assert two is None
    assert (one.numpy().tolist(), three.numpy().tolist()) == ([10.0] * 3, [30.0] * 3)
    assert seen == ([(0, "g"), (2, "g")] if separate else [(None, "g")])


def test_without_a_reference_the_error_has_the_line_to_write(registered):
    """And a reference must give what is in `outs`."""
    with pytest.raises(RefusedError, match=r"register\('lib.so', 'Make', forward=f\)"):
        precompiled_user_op([X], "a/lib.so", outs=OUTS, op_name="Make")
    registered("wrong.so", forward=lambda inputs, *_: [inputs[0][:2]])
    with pytest.raises(ValueError, match=r"\[float32 \(3,\)\], got \[float32 \(2,\)\]"):
        precompiled_user_op([X], "wrong.so", outs=OUTS)
    registered("bare.so", forward=lambda inputs, *_: inputs[0])
    with pytest.raises(
        TypeError, match=r"'bare.so' must return a list of tensors, got"
    ):
        precompiled_user_op([X], "bare.so", outs=OUTS)
    registered(
        "few.so",
        forward=lambda inputs, *_: [tf.add_n(inputs)],
        gradient=lambda gradients, *_: gradients,
    )
    with tf.GradientTape() as tape:
        inputs = [tf.constant(X), tf.constant(Y)]
        tape.watch(inputs)
        (z,) = precompiled_user_op(inputs, "few.so", outs=OUTS)
    with pytest.raises(
        ValueError, match="a list of 2: one for each input, got 1 in a li"
    ):
        tape.gradient(z, inputs)
    with pytest.raises(TypeError, match="`forward` must be a function, got int"):
        references.register("a", forward=5)
