"""Notes give their argument back; errors of refused names have the replacement."""

import numpy as np
import pytest
import tensorflow as tf

import ipufeed as ipu
from ipufeed.errors import RefusedError
from ipufeed.ops import op_util, refused


def test_notes_change_nothing():
    """Each gives what it was given; the maps are empty."""
    x = tf.constant(1.0)
    for note in ("SetOpAsFwd", "SetOpAsBwd", "SetOpAsWU", "HandleMatMulGrads"):
        assert getattr(op_util, note)(x) is x
    assert op_util.SetMlType(x, "INFERENCE_FWD") is x
    maps = ("conv_gradients", "matmul_gradients", "gradients")
    assert [getattr(op_util, f"{each}_override_map")() for each in maps] == [{}] * 3
    with op_util.gradient_override_scope(True):
        pass


def test_dtypes_and_names_are_found():
    """Of a variable or given; of a function or given."""
    variable = tf.Variable(1.0)
    assert op_util.get_accumulator_dtype(variable) == tf.float32
    assert op_util.get_accumulator_dtype(variable, tf.float16) == tf.float16
    given = op_util.get_accumulator_dtype(variable, lambda each: each.dtype.name)
    assert given == tf.float32
    for wrong in ("no dtype", True, np.ones(2)):
        with pytest.raises(TypeError, match="must be None, a dtype, or a function of"):
            op_util.get_accumulator_dtype(variable, wrong)
    assert op_util.get_activation_name("gelu") == "gelu"
    assert op_util.get_activation_name(tf.nn.relu) == "relu"
    with pytest.raises(TypeError, match="got int 5"):
        op_util.get_activation_name(5)
    states = [op_util.bool_to_three_state(each) for each in (True, False, None)]
    assert states == ["THREESTATE_ON", "THREESTATE_OFF", "THREESTATE_UNDEFINED"]
    assert op_util.bool_to_three_state(None, "mine") == "mine"


def test_gradients_are_scaled_and_cast_to_their_accumulators():
    """None stays None; slices become dense; a shape that does not fit is an error."""
    wide, narrow = tf.Variable([1.0, 2.0]), tf.Variable([[1.0]], dtype=tf.float16)
    pairs = [
        (tf.IndexedSlices([3.0], [1], [2]), wide),
        (None, wide),
        (tf.constant([[4.0]], tf.float16), narrow),
    ]

    found = op_util.accumulate_gradients(pairs, lambda each: tf.float32, 0.5, 2.0)

    assert [variable for _, variable in found] == [wide, wide, narrow]
    assert found[0][0].numpy().tolist() == [0.0, 6.0]
    assert found[1][0] is None
    assert found[2][0].dtype == tf.float32
    assert found[2][0].numpy() == 8
    ((kept, _),) = op_util.accumulate_gradients([(tf.constant([[1.5]]), narrow)])
    assert kept.dtype == tf.float16
    row = tf.constant([1.0])
    with pytest.raises(ValueError, match=r"must have its shape \(1, 1\), got \(1,\)"):
        op_util.accumulate_gradients([(row, narrow)])
    ((own, _),) = op_util.accumulate_gradients(
        [(row, narrow)], create_accumulator_from_shape=True
    )
    assert own.shape == (1,)


@pytest.mark.parametrize("name", refused.NAMES)
def test_a_refused_name_can_be_had_and_raises_when_it_is_called(name):
    """Or subclassed; the error names it."""
    value = getattr(refused, name)
    with pytest.raises(RefusedError, match=f"^{name} does not work here: "):
        value(1, option=2)
    with pytest.raises(NotImplementedError, match=name):

        class _Own(value):
            pass


def test_refused_names_are_where_the_original_has_them():
    """An import of them works."""
    from ipufeed.ops.experimental.popfloat_cast_to_gfloat import GenericFloat

    assert GenericFloat is refused.GenericFloat
    assert ipu.config.AttributeMetadata is refused.AttributeMetadata
    assert op_util.create_resource_update is refused.create_resource_update
    for module in (op_util, refused):
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            _ = module.other
