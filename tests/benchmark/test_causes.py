"""What may be behind a part that was left out: only what can do that, and was there."""

import pytest
import tensorflow as tf

from ipufeed.benchmark.causes import why_left_out
from ipufeed.benchmark.describe import has_autotune
from ipufeed.benchmark.steady import LeftOut

AUTOTUNE = "AUTOTUNE, which begins with little parallelism"
OTHERS = "the other processes that the warning is about"


@pytest.mark.parametrize(
    ("what", "ratio", "autotune", "busy", "cause"),
    [
        ("fill", 1.21, True, True, "perhaps buffers that had filled before"),
        ("drain", 30.0, True, True, "perhaps buffers that emptied"),
        ("fill", 0.2, True, False, f"perhaps {AUTOTUNE}"),
        ("fill", 0.2, True, True, f"perhaps {AUTOTUNE}, or {OTHERS}"),
        ("fill", 0.2, False, False, "nothing that was measured says why"),
        ("drain", 0.8, False, True, f"perhaps {OTHERS}"),
        ("drain", 0.8, True, False, "nothing that was measured says why"),
    ],
)
def test_only_a_cause_that_was_there_is_named(what, ratio, autotune, busy, cause):
    """Buffers make an end faster, never slower; AUTOTUNE has begun long before the end."""
    part = LeftOut(what, 1.0, 100, ratio)

    assert (
        f"the rate was {ratio:.3g} times that of the steady state; {cause}"
        == why_left_out(part, autotune, busy)
    )


def test_a_pipeline_has_autotune_where_a_step_asks_for_it():
    """In whatever step, unless it is switched off as a whole."""
    plain = tf.data.Dataset.range(9).map(lambda x: x).prefetch(2)
    tuned = tf.data.Dataset.range(9).map(lambda x: x, num_parallel_calls=-1).batch(2)
    options = tf.data.Options()
    options.autotune.enabled = False

    assert not has_autotune(plain)
    assert has_autotune(tuned)
    assert has_autotune(tf.data.Dataset.zip(plain, plain.prefetch(tf.data.AUTOTUNE)))
    assert not has_autotune(tuned.with_options(options))
    with tf.Graph().as_default():
        assert has_autotune(tf.compat.v1.data.Dataset.range(9).prefetch(-1))
