"""What operations refuse, in the original's words, with what they got."""

import re

import numpy as np
import pytest
import tensorflow as tf

import ipufeed as ipu

X = np.ones([2, 6], np.float32)
I2 = np.array([1, 2], np.int32)
I3 = np.ones(3, np.int32)
norms, maths, slices = ipu.normalization_ops, ipu.math_ops, ipu.slicing_ops
stats, nn = ipu.statistics_ops, ipu.nn_ops


def unknown(shape):
    """A tensor whose shape says less than it has, in a function that is traced."""
    return tf.TensorSpec(shape, tf.float32)


def traced(function, *shapes):
    """Traces a function of inputs of these shapes."""
    return tf.function(function).get_concrete_function(*map(unknown, shapes))


CASES = {
    "The rate must be in the range [0, 1), but was 1": lambda: ipu.rand_ops.dropout(
        X, 1
    ),
    "The length of noise_shape must equal the rank of x.": lambda: ipu.rand_ops.dropout(
        X, noise_shape=[2]
    ),
    "Dimension mismatch, 3 != 6.": lambda: ipu.rand_ops.dropout(X, noise_shape=[1, 3]),
    "Expected the seed to have a shape [2], but got (3,).": lambda: (
        ipu.rand_ops.dropout(X, seed=[1, 2, 3])
    ),
    "has undefined rank.": lambda: traced(norms.group_norm, None),
    "Axis is out of bounds.": lambda: norms.group_norm(X, channels_axis=2),
    "Unsupported data format, group norm only supports NCHW(channel axis 1) and NHWC "
    "(channel axis -1).": lambda: norms.layer_norm(np.ones([2, 2, 2, 2]), 2),
    "has undefined channel dimension: 1.": lambda: traced(norms.group_norm, [2, None]),
    "Invalid groups 7 for 6 channels.": lambda: norms.group_norm(X, 7),
    "6 channels is not commensurate with 4 groups.": lambda: norms.group_norm(X, 4),
    "serialization_factor has to be at least 1, but was 0.": lambda: (
        maths.serialized_matmul(X, X, 0, "a_columns")
    ),
    "Expected tensor 'b' to have a minimum rank of 2": lambda: maths.serialized_matmul(
        X, X[0], 1, "a_columns"
    ),
    "Expected 'serialization_factor' (4) to divide the columns dimension of 'a' (2)": (
        lambda: maths.serialized_matmul(X, X, 4, "a_columns")
    ),
    "Expected 'serialization_factor' (4) to divide the rows dimension of 'a' (6)": (
        lambda: maths.serialized_matmul(X, X, 4, "a_rows_b_columns", transpose_b=True)
    ),
    "Expected 'serialization_factor' (4) to divide the rows dimension of 'b' (2)": (
        lambda: maths.serialized_matmul(X, X, 4, "b_rows", transpose_b=True)
    ),
    "Expected the number of columns in 'a' (6) to match the number of rows in 'b' (2).": (
        lambda: maths.serialized_matmul(X, X, 2, "a_rows_b_columns")
    ),
    "Invalid serialization_dimension=c, expected one of: 'a_columns', "
    "'a_rows_b_columns', 'b_rows'.": lambda: maths.serialized_matmul(X, X, 2, "c"),
    "Shape of data must be fully defined": lambda: traced(
        lambda x: maths.segment_sum(x, I2, 2), [None]
    ),
    "num_segments must be greater than 0; got 0": lambda: maths.segment_sum(X, I2, 0),
    "segment_ids (shape (2,)) must have same length as axis 0 of data (shape (6, 2))": (
        lambda: maths.segment_sum(X.T, I2, 2)
    ),
    "num_elems, src_offsets and dst_offsets must have matching, nonzero shapes "
    "of rank 1.": (lambda: slices.sequence_slice(X, X, I2, I2[:1], I2, False)),
    "src and dst inner shapes must match.": lambda: slices.sequence_slice(
        X, X[:, :2], I2, I2, I2, False
    ),
    "num_elems and src_offsets must have matching, nonzero shapes of rank 1.": lambda: (
        slices.sequence_slice_unpack(X, I2, I2[:0], 4)
    ),
    "Only float16 and float32 types are supported for histogram computation.": lambda: (
        stats.histogram(I2, [1.0])
    ),
    "blank_index must be in -4 to 3 for 4 classes, got 4.": lambda: nn.ctc_loss_v2(
        [[1]], np.ones([3, 1, 4], np.float32), [1], [3], 4
    ),
    "blank_index must be in -4 to 3 for 4 classes, got -5.": lambda: (
        nn.ctc_beam_search_decoder(np.ones([3, 1, 4], np.float32), [3], blank_index=-5)
    ),
    "top_paths must be in 1 to beam_width (2), got 3.": lambda: (
        nn.ctc_beam_search_decoder(np.ones([3, 1, 4], np.float32), [3], 2, 3)
    ),
    "must be known for the beam search, got the shape (3, 1, None)": lambda: traced(
        lambda logits: nn.ctc_beam_search_decoder(logits, [3]), [3, 1, None]
    ),
    "n_bins must be at least 1, got 0.": lambda: stats.fixed_width_bins(X, 0),
    "histogram expects rank-1 tensor inputs.": lambda: stats.histogram(X, [1.0]),
    "hist must be of float32 type": lambda: stats.histogram_update(I2, X[0], [1.0]),
    "histogram_update expects rank-1 tensor inputs.": lambda: stats.histogram_update(
        X[0], X, [1.0]
    ),
    "hist and levels shapes are incompatible. For n levels, hist must have n+1 elements.": (
        lambda: stats.histogram_update(X[0], X[0], [1.0])
    ),
    "The image has 6 channels, expected 3.": lambda: ipu.image_ops.normalise_image(
        X, I2, I2
    ),
    "must be the same size as the number of image channels 3, but was (2,)": lambda: (
        ipu.image_ops.normalise_image(X[:, :3], I2, I2)
    ),
    "has to be at least 1, but was -1.": lambda: ipu.embedding_ops.embedding_lookup(
        X, I2, -1
    ),
    "The serialization_factor (4) must divide the size of the 0th dimension of params "
    "(2).": (lambda: ipu.embedding_ops.embedding_lookup(X, I2, 4)),
    "The shape of `params` must be fully defined": lambda: traced(
        lambda x: ipu.embedding_ops.embedding_lookup(x, I2), [None, 2]
    ),
    "out_dtype cannot be float16 when dtype of data is float32.": lambda: (
        nn.ctc_loss_with_log_probs([[1]], X[None], [1], [1], 0, tf.float16)
    ),
    "num_sampled must be in 1 to num_classes (2), got 3": lambda: nn.nce_loss(
        X, X[:, 0], [[0]], X[:1], 3, 2
    ),
    "`weights` must have a row for each of the 3 classes of `num_classes`, got the "
    "shape (2, 6)": lambda: nn.nce_loss(X, X[0, :3], [[0]], X[:1], 2, 3),
    "`biases` must have a number for each of the 2 classes of `num_classes`, got the "
    "shape (1,)": lambda: nn.sampled_softmax_loss(X, X[0, :1], [[0]], X[:1], 2, 2),
    "`biases` must have a number for each of the 2 classes of `num_classes`, got the "
    "shape (2, 6)": lambda: nn.nce_loss(X, X, [[0]], X[:1], 2, 2),
    "`num_true` must be at least 1, got 0.": lambda: nn.nce_loss(
        X, X[:, 0], [[0]], X[:1], 1, 2, 0
    ),
    "`labels` must have the shape [batch, num_true], here [2, 1] as `inputs` has 2 rows, "
    "got ()": lambda: nn.sampled_softmax_loss(X, X[:, 0], 1, X, 1, 2),
    "`inputs` must have the shape [batch, width], got (6,)": lambda: nn.nce_loss(
        X, X[:, 0], [[0]], X[0], 1, 2
    ),
    "`levels` must have one dimension, got the shape (2, 6)": lambda: stats.histogram(
        X[0], X
    ),
    "`levels` must have one dimension, got the shape ()": lambda: (
        stats.histogram_update(X[0], X[0], 1.0)
    ),
    "`axis` must be in [-2, 1] for tensors of rank 2, got 2.": lambda: (
        ipu.within_replica_ops.all_gather([X], 2)
    ),
    "`x` must have at least one dimension for `split_dimension`, got a scalar.": lambda: (
        ipu.all_to_all_op.all_to_all(1.0, 0, 0, 1)
    ),
    "`split_dimension` must be an int in [-2, 2), got True.": lambda: (
        ipu.all_to_all_op.all_to_all(X, True, 0, 1)
    ),
    "`concat_dimension` must be an int in [-2, 2), got 0.5.": lambda: (
        ipu.all_to_all_op.all_to_all(X, 0, 0.5, 1)
    ),
    "An outlined function must return at least one tensor": lambda: (
        ipu.outlined_function(lambda: None)()
    ),
    "`tensors` must hold at least one tensor": lambda: ipu.control_flow_ops.barrier([]),
}


@pytest.mark.parametrize("text", CASES)
def test_a_wrong_value_is_refused_with_its_text(text):
    """As a ValueError."""
    with pytest.raises(ValueError, match=re.escape(text)):
        CASES[text]()


def test_wrong_types_are_refused():
    """As a TypeError, with what was given."""
    with pytest.raises(
        TypeError, match="`options` to be a `dict`, but got high instead"
    ):
        nn.multi_conv(options="high")(lambda x: x)(X)
    with pytest.raises(TypeError, match="either float16, float32 or uint8"):
        ipu.image_ops.normalise_image(np.ones([1, 3]), I2, I2)
    with pytest.raises(TypeError, match="`func` must be a function, got int"):
        ipu.outlined_function(5)
    with pytest.raises(
        TypeError, match=r"must be tensors.* got object\. Let the function"
    ):
        ipu.outlined_function(lambda own, x: x)(object(), X)


NUMBERS = {
    "rate of dropout": lambda value: ipu.rand_ops.dropout(X, value),
    "epsilon of group_norm": lambda value: norms.group_norm(X, epsilon=value),
    "epsilon of layer_norm": lambda value: norms.layer_norm(X, epsilon=value),
    "epsilon of instance_norm": lambda value: norms.instance_norm(X, epsilon=value),
    "groups of group_norm": lambda value: norms.group_norm(X, value),
    "channels_axis of layer_norm": lambda value: norms.layer_norm(X, value),
    "serialization_factor of serialized_matmul": lambda value: maths.serialized_matmul(
        X, X.T, value, "a_columns"
    ),
    "num_segments of segment_sum": lambda value: maths.segment_sum(X, I2 - 1, value),
}


@pytest.mark.parametrize("argument", NUMBERS)
@pytest.mark.parametrize("value", [True, "3", None, [1]], ids=str)
def test_a_number_must_be_one(argument, value):
    """The error names the argument; True is not 1."""
    name = argument.split()[0]
    with pytest.raises(TypeError, match=f"^`{name}` must be an? (int|number), got "):
        NUMBERS[argument](value)


@pytest.mark.parametrize("norm", ["group_norm", "layer_norm", "instance_norm"])
@pytest.mark.parametrize("epsilon", [-1, float("nan"), float("inf")])
def test_an_epsilon_must_be_finite_and_not_negative(norm, epsilon):
    """The results would be NaN, or 0."""
    with pytest.raises(ValueError, match=r"^`epsilon` must be finite and at least 0"):
        getattr(norms, norm)(X, epsilon=epsilon)


@pytest.mark.parametrize("seed", [np.array([1.7, 2.9]), [True, False], ["1", "2"]])
def test_a_seed_of_dropout_must_be_of_integers(seed):
    """A float is not truncated."""
    with pytest.raises(TypeError, match=r"^`seed` must be two integers, got a tensor"):
        ipu.rand_ops.dropout(X, seed=seed)


def test_sizes_of_batches_must_fit():
    """As TensorFlow's error of an invalid argument."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="logit_length has"):
        nn.ctc_loss_v2([[1], [1]], np.ones([3, 2, 4], np.float32), [1, 1], [3], 0)


def test_a_small_epsilon_is_warned_of(caplog):
    """A float16 of it is zero."""
    with caplog.at_level("WARNING", "ipufeed"):
        norms.layer_norm(X, epsilon=1e-6)

    assert "can lead to NaN" in caplog.text


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (
            "`inputs` must be floats, got int32",
            lambda: norms.layer_norm(X.astype("i4")),
        ),
        (
            "`n_bins` must be an int, got str '3'",
            lambda: stats.fixed_width_bins(X, "3"),
        ),
        (
            "one dtype, got float16 and float32",
            lambda: slices.sequence_slice(X, X.astype("f2"), I2, I2, I2, True),
        ),
        (
            "`num_elems` must be integers, got a tensor of float32",
            lambda: slices.sequence_slice(X, X, I2.astype("f4"), I2, I2, True),
        ),
        (
            "`src_offsets` must be integers, got a tensor of bool",
            lambda: slices.sequence_slice_unpack(X, I2, True, 4),
        ),
        (
            "`total_elements` must be an int, got float 4.5",
            lambda: slices.sequence_slice_unpack(X, I2, I2, 4.5),
        ),
        (
            "`name` must be a str or None, got int 5",
            lambda: ipu.internal_ops.print_tensor(X, name=5),
        ),
        (
            '`param_initializers` must be a dict of initializers by "beta" and "gamma"',
            lambda: norms.group_norm(X, param_initializers=X),
        ),
        (
            "`num_sampled` must be an int, got NoneType",
            lambda: nn.nce_loss(X, X, I2, X, None, 2),
        ),
        (
            "`input_shards` must be a list of tensors, one of each shard, got int",
            lambda: ipu.within_replica_ops.all_gather(3),
        ),
        (
            "`segment_ids` must be integers, the ids of rows, got float32",
            lambda: maths.segment_sum(X, X[:, 0], 2),
        ),
        (
            "`label_length` must be integers, got a tensor of float32",
            lambda: nn.ctc_loss_v2([[1]], X[None], X[0, :1], [1], 0),
        ),
        (
            "`logits_lengths` must be integers, got a tensor of float32",
            lambda: nn.ctc_beam_search_decoder(X[None], X[:, 0]),
        ),
        (
            "`blank_index` must be an int, got bool True",
            lambda: nn.ctc_loss_v2([[1]], X[:, None], [1], [1], True),
        ),
        (
            "`out_dtype` must be tf.float16, tf.float32 or None for that of `data`, got "
            "bool True",
            lambda: nn.ctc_loss_with_log_probs([[1]], X[None], [1], [1], 0, True),
        ),
        (
            "`beam_width` must be an int, got float 1.5",
            lambda: nn.ctc_beam_search_decoder(X[None], [1, 1], 1.5),
        ),
        (
            "`inputs` must be floats, got int32. Cast it",
            lambda: nn.nce_loss(X, X[:, 0], [[0]], I2[None], 1, 2),
        ),
        (
            "`labels` must be of numbers or bools, got a tensor of string",
            lambda: nn.nce_loss(X, X[:, 0], [["a"]], X[:1], 1, 2),
        ),
        (
            "as tf.random.log_uniform_candidate_sampler returns them, got list []",
            lambda: nn.nce_loss(X, X[:, 0], [[0]], X[:1], 1, 2, sampled_values=[]),
        ),
        (
            "`scale` must be of numbers or bools, got a tensor of string",
            lambda: ipu.image_ops.normalise_image(X[:, :3], I3, I3, "2"),
        ),
        (
            "`axis` must be an int, got bool True",
            lambda: ipu.within_replica_ops.all_gather([X], True),
        ),
        # Its __index__ is a bytes object's, which there is not.
        (
            "`n_bins` must be an int, got EagerTensor",
            lambda: stats.fixed_width_bins(X, tf.constant("3")),
        ),
        ("`func` must be a function, got int 3", lambda: nn.multi_conv(3)),
        ("`computation` must be a function", lambda: ipu.ipu_compiler.compile(3)),
        ("`body` must be a function", lambda: ipu.loops.repeat(2, 3, [])),
        (
            "`condition` must be a function",
            lambda: ipu.loops.while_loop(True, lambda x: x, [1.0]),
        ),
    ],
)
def test_arguments_of_other_types(words, call):
    """Named before anything is built of them."""
    with pytest.raises(TypeError, match=re.escape(words)):
        call()


@pytest.mark.parametrize("activation", ["gelu", "hard_sigmoid", "softmax", "swish"])
def test_activations_of_integers_are_refused(activation):
    """hard_sigmoid rounded 0.2 and 0.5 down to 0."""
    with pytest.raises(TypeError, match=r"`x` must be floats, got int32\. Cast it"):
        getattr(nn, activation)(I2)


TENSORS = {
    "x": lambda: nn.hard_sigmoid(None),
    "params": lambda: ipu.embedding_ops.embedding_lookup(None, I2),
    "ids": lambda: ipu.embedding_ops.embedding_lookup(X, None),
    "inputs": lambda: norms.group_norm(None),
    "b": lambda: maths.serialized_matmul(X, None, 1, "a_columns"),
    "segment_ids": lambda: maths.segment_sum(X, None, 2),
    "src": lambda: slices.sequence_slice(X, None, I2, I2, I2, True),
    "levels": lambda: stats.histogram(X[0], None),
    "input": lambda: ipu.internal_ops.print_tensor(None),
    "image": lambda: ipu.image_ops.normalise_image(None, X, X),
    "log_probs": lambda: nn.ctc_beam_search_decoder_with_log_probs(None, I2),
    "logit_length": lambda: nn.ctc_loss_v2(I2, X, I2, None, 0),
    "data_length": lambda: nn.ctc_loss_with_log_probs(I2, X, I2, None, 0),
    "input_shards[1]": lambda: ipu.within_replica_ops.all_gather([X, None]),
    "inputs[0]": lambda: ipu.ipu_compiler.compile(lambda x: x, [None]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_an_argument_that_is_not_a_tensor_is_named(name):
    """TensorFlow says "None values not supported", and not of what."""
    with pytest.raises(
        ValueError,
        match=re.escape(f"`{name}` must be a tensor, or a value that converts"),
    ):
        TENSORS[name]()


def test_a_long_value_is_shortened_in_the_error():
    with pytest.raises(
        ValueError, match=r"got list \[\[0, 1, 2, 3, 4, 5, \.\.\.\]"
    ) as error:
        nn.hard_sigmoid([list(range(1000)), [1]])
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("number", [1, 2])
def test_a_list_of_tables_is_not_a_table_of_rank_3(number):
    """Whose ids from 1 on would be outside, and their rows zeros."""
    with pytest.raises(TypeError, match=f"must be one table, got a list of {number}"):
        ipu.embedding_ops.embedding_lookup([tf.ones([4, 2])] * number, [1])
