"""8-bit floats are those of ml_dtypes; products are those of their numbers."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops.quarter import f8_ops as f8

KINDS = {
    f8.Format.F143: (ml_dtypes.float8_e4m3fnuz, 240.0),
    f8.Format.F152: (ml_dtypes.float8_e5m2fnuz, 57344.0),
}
random = np.random.default_rng(0)


@pytest.fixture(scope="module", autouse=True)
def one_ipu():
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()


@pytest.mark.parametrize("fmt", list(f8.Format))
def test_codes_are_those_of_ml_dtypes(fmt):
    """All numbers of float16 that fit, and all codes; what does not fit is the largest."""
    kind, largest = KINDS[fmt]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    metadata = f8.create_metadata(fmt)
    packed = f8.convert_to_f8(halves, metadata)
    fits = np.abs(halves.astype("float32")) <= largest
    with np.errstate(all="ignore"):
        want = halves.astype("float32").astype(kind).view(np.uint8)
    found = packed.data.numpy()

    assert np.array_equal(found[fits], want[fits])
    over = ~fits & ~np.isnan(halves)
    assert set(found[over & (halves > 0)]) <= {0x7F}
    assert set(found[over & (halves < 0)]) <= {0xFF}
    assert set(found[np.isnan(halves)]) == {0x80}
    codes = np.arange(256, dtype=np.uint8)
    numbers = f8.convert_from_f8([codes, metadata], tf.float32).numpy()
    assert np.array_equal(numbers, codes.view(kind).astype("float32"), equal_nan=True)


@pytest.mark.parametrize("scale", [-32, -3, 0, 5, 31])
def test_a_scale_is_a_power_of_two(scale):
    """Numbers are codes times 2**scale; the metadata may be a tensor."""
    metadata = f8.create_metadata(f8.Format.F152, scale)
    x = np.float32([0.0, 1.0, -1.5, 0.75]) * 2.0 ** np.clip(scale, -20, 14)
    found = tf.function(
        lambda x, metadata: f8.convert_from_f8(
            f8.convert_to_f8(x, metadata), tf.float32
        ),
        jit_compile=True,
    )(x, tf.constant(metadata))

    want = (np.float16(x).astype("float32") * 2.0**-scale).astype(
        ml_dtypes.float8_e5m2fnuz
    ).astype("float32") * 2.0**scale
    assert np.allclose(found, np.clip(want, -57344 * 2.0**scale, 57344 * 2.0**scale))
    assert int(metadata) == scale % 64
    assert int(f8.create_metadata(f8.Format.F143, scale)) == scale % 64 + 128


def quarters(*shape, fmt=f8.Format.F143):
    return f8.convert_to_f8(random.normal(size=shape), f8.create_metadata(fmt, -2))


def test_products_and_convolutions():
    """Of the numbers, in float16: with NumPy and TensorFlow's own."""
    for left, right in (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5))):
        a, b = quarters(*left), quarters(*right, fmt=f8.Format.F152)
        found = f8.f8_matmul(a, b)
        want = np.matmul(
            f8.convert_from_f8(a, tf.float32), f8.convert_from_f8(b, tf.float32)
        )
        assert found.dtype == tf.float16
        assert np.allclose(found, want, rtol=2e-3, atol=1e-3)
    for function, stock, x, w, strides in (
        (f8.f8_conv_1d, tf.nn.conv1d, (2, 9, 3), (3, 3, 4), 2),
        (f8.f8_conv_2d, tf.nn.conv2d, (2, 6, 6, 3), (3, 3, 3, 4), 1),
        (f8.f8_conv_3d, tf.nn.conv3d, (1, 5, 5, 5, 2), (2, 2, 2, 2, 3), [1] * 5),
    ):
        a, b = quarters(*x), quarters(*w)
        found = function(a, b, strides, "SAME")
        numbers = [f8.convert_from_f8(each, tf.float32) for each in (a, b)]
        want = stock(*numbers, strides, "SAME")
        assert found.dtype == tf.float16
        assert np.allclose(found, want, rtol=2e-3, atol=2e-3)


def test_in_a_loop_of_a_program():
    """Compiled on an IPU, and in a version 1 graph."""
    a, b = quarters(3, 4), quarters(4, 3)
    want = f8.f8_matmul(a, b).numpy()

    @tf.function(jit_compile=True)
    def program(data, metadata):
        def body(i, total):
            product = f8.f8_matmul(f8.QuarterTensor(data, metadata), b)
            return i + 1, total + product

        zeros = tf.zeros([3, 3], tf.float16)
        return tf.while_loop(lambda i, _: i < 3, body, [0, zeros])[1]

    strategy = IPUStrategy()
    with strategy.scope():
        data, metadata = (tf.convert_to_tensor(each) for each in a)
        found = strategy.run(program, args=[data, metadata])
    assert np.allclose(found, want * np.float16(3), rtol=1e-2)

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [3, 4])
        packed = f8.convert_to_f8(x, f8.create_metadata(f8.Format.F143))
        data = session.run(packed.data, {x: np.ones([3, 4])})
    assert np.array_equal(data, np.full([3, 4], 0x40))


def test_quarter_tensors():
    """Their parts, slices, assignments and errors."""
    metadata = f8.create_metadata(f8.Format.F152, 1)
    one = f8.QuarterTensor(
        tf.Variable(tf.zeros([2, 3], tf.uint8)), tf.Variable(metadata)
    )
    other = f8.QuarterTensor(np.ones([2, 3], np.uint8), metadata)
    assert (len(one), tuple(one.shape), one.dtype) == (2, (2, 3), tf.uint8)
    assert one != other
    one.assign(other)
    assert one == other
    assert one[1].numpy()[0].tolist() == [1, 1, 1]
    data, zero = f8.canonicalise_input(tf.ones([2, 3]))
    assert (tuple(data.shape), int(zero)) == ((1, 2, 3), 0)
    assert f8.canonicalise_input(other)[1] == metadata
    assert tuple(f8.canonicalise_output(data, tf.ones([2, 3])).shape) == (2, 3)

    with pytest.raises(TypeError, match="`data` must be of uint8, got float32"):
        f8.QuarterTensor(np.ones(2, np.float32), metadata)
    with pytest.raises(TypeError, match="needs one of variables"):
        other.assign(one)
    with pytest.raises(ValueError, match=r"`scale` must be in \[-32, 31\], got 32"):
        f8.create_metadata(f8.Format.F143, 32)
    with pytest.raises(ValueError, match="lhs must have 3 dimensions, or 2"):
        f8.canonicalise_input(tf.ones([2]), name="lhs")
    with pytest.raises(ValueError, match="`rhs` of f8_matmul must have 2 or 3"):
        f8.f8_matmul(tf.ones([2, 2]), tf.ones([2]))


def test_operands_that_are_not_tensors():
    """Lists and arrays are numbers, as for TensorFlow's own product."""
    numbers = [[1.0, 2.0], [3.0, 4.0]]
    packed = f8.convert_to_f8(numbers, f8.create_metadata(f8.Format.F143))
    for left, right in ((numbers, numbers), (packed, numbers), (numbers, packed)):
        assert np.array_equal(f8.f8_matmul(left, right), [[7.0, 10.0], [15.0, 22.0]])


METADATA = f8.create_metadata(f8.Format.F143)
IMAGE = np.ones([1, 1, 1, 1], np.float32)
REFUSED = {
    "an operand": (lambda: f8.f8_matmul(None, [[1.0]]), ".lhs. must be a"),
    "codes": (
        lambda: f8.convert_to_f8(f8.QuarterTensor(np.uint8([1]), METADATA), METADATA),
        "`values` must be numbers, .*convert_from_f8",
    ),
    "metadata": (
        lambda: f8.convert_to_f8([1.0], np.uint8([1])),
        r"`metadata` must be a scalar.*shape \(1,\).*create_metadata",
    ),
    "packed": (
        lambda: f8.convert_from_f8(np.float32([1.0])),
        "`packed_input` must be a QuarterTensor .* got ndarray.*convert_to_f8",
    ),
    "a format": (
        lambda: f8.create_metadata("F143"),
        "`fmt` must be Format.F143 or Format.F152, got 'F143'",
    ),
    "a dtype": (
        lambda: f8.convert_from_f8([np.uint8([1]), METADATA], True),
        "`dtype` must be a tf.DType or its name, got bool True",
    ),
    # tf.nn.conv2d takes 1.5 for 1, and text for the numbers of its bytes.
    "a stride": (
        lambda: f8.f8_conv_2d(IMAGE, IMAGE, 1.5, "SAME"),
        "`strides` must be an int or a list of them, got float 1.5",
    ),
    "a dilation": (
        lambda: f8.f8_conv_2d(IMAGE, IMAGE, 1, "SAME", dilations=b"x"),
        "`dilations` must be an int or a list of them, got bytes b'x'",
    ),
    "one of the strides": (
        lambda: f8.f8_conv_2d(IMAGE, IMAGE, [1, True], "SAME"),
        "`strides` must be an int, got bool True",
    ),
    "a format of data": (
        lambda: f8.f8_conv_2d(IMAGE, IMAGE, 1, "SAME", data_format=1),
        "`data_format` must be a str, got int 1",
    ),
    "a scale": (
        lambda: f8.create_metadata(f8.Format.F143, 1.5),
        "`scale` must be an int",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=text):
        call()


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            ("x", 0),
            TypeError,
            "`values` must be of numbers or bools, got a tensor of str",
        ),
        ((None, 0), ValueError, "`values` must be a tensor, .*got NoneType"),
        (
            (1.0, -1),
            ValueError,
            r"`metadata` must be in \[0, 255\], got -1: use create_m",
        ),
        ((1.0, 256), ValueError, r"`metadata` must be in \[0, 255\], got 256"),
        ((1.0, None), ValueError, "`metadata` must be a tensor, .*got NoneType"),
        ((1.0, "x"), TypeError, "`metadata` must be a tensor, .*got str 'x'"),
    ],
)
def test_a_conversion_names_what_it_cannot_convert(given, error, text):
    """A number outside of a byte would be another scale."""
    with pytest.raises(error, match=text):
        f8.convert_to_f8(*given)


@pytest.mark.parametrize("fmt", [True, 2, "F143", np.zeros([2])], ids=str)
def test_a_format_is_one_of_two(fmt):
    with pytest.raises(ValueError, match=r"`fmt` must be Format\.F143 or Format\.F152"):
        f8.create_metadata(fmt)
