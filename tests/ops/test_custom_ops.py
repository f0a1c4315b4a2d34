"""Functions of a shared library, and references in place of Poplar's libraries."""

import subprocess

import numpy as np
import pytest
import styles
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.errors import RefusedError
from ipufeed.ops import references
from ipufeed.ops.custom_ops import cpu_user_operation, precompiled_user_op
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1
SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>
using In = const std::vector<const void*>&;
using Counts = const std::vector<uint32_t>&;
using Out = const std::vector<void*>&;
using Text = const std::string&;
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


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compiles the source with a level of the interface."""
    folder = tmp_path_factory.mktemp("user_ops")

    def build(level=5):
        path = folder / f"lib{level}.so"
        if not path.exists():
            source = folder / "op.cc"
            source.write_text(SOURCE)
            subprocess.run(
                ["g++", "-shared", "-fPIC", f"-DLEVEL={level}", source, "-o", path],
                check=True,
                timeout=120,
            )
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


def test_a_library_computes_in_a_stage_that_is_recomputed(library):
    """Its result is kept, and its gradient is called once for each mini-batch."""
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
                lambda y: cpu_user_operation([weights, y], library(), OUTS)[0],
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
    np.testing.assert_array_equal(weights, X - 4 * Y)


def test_what_is_wrong_with_a_library_is_an_error(library, tmp_path):
    """The level, the symbol, the file, an exception, and attributes of other types."""
    with pytest.raises(
        tf.errors.InternalError, match="op name Callback is 4, expected 5"
    ):
        cpu_user_operation([X, Y], library(4), OUTS)
    with pytest.raises(tf.errors.NotFoundError, match="Other"):
        cpu_user_operation([X, Y], library(), OUTS, op_name="Other")
    with pytest.raises(tf.errors.NotFoundError, match=r"none.so: No such file"):
        cpu_user_operation([X, Y], str(tmp_path / "none.so"), OUTS)
    with pytest.raises(tf.errors.InternalError, match="the library says no"):
        cpu_user_operation([X, Y], library(), OUTS, name="fails")
    for function in (cpu_user_operation, precompiled_user_op):
        with pytest.raises(ValueError, match="Expected attributes to be a 'str' type"):
            function([X], "lib.so", attributes=5)
        with pytest.raises(ValueError, match="Expected gradient_attributes to be"):
            function([X], "lib.so", gradient_attributes=5)
    with pytest.raises(
        ValueError, match="as many output_shapes as output_types, got 0"
    ):
        cpu_user_operation([X], "a", {"output_types": [tf.int32], "output_shapes": []})


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
    with pytest.raises(TypeError, match="`forward` must be a function, got int"):
        references.register("a", forward=5)
