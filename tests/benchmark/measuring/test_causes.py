"""What may be behind a part that was left out: only what can do that, and was there."""

import pytest
import tensorflow as tf

from ipufeed.benchmark.measuring.describe import has_autotune, has_cache
from ipufeed.benchmark.measuring.steady_state import LeftOut, why_left_out

AUTOTUNE = "AUTOTUNE, which begins with little parallelism"
CACHE = "the first pass through the cache, which fills it"
OTHERS = "the other processes that the warning is about, if they took more then"


@pytest.mark.parametrize(
    ("what", "ratio", "autotune", "cache", "busy", "cause"),
    [
        ("fill", 1.21, True, False, True, "perhaps buffers that had filled before"),
        ("drain", 30.0, True, False, True, "perhaps buffers that emptied"),
        ("fill", 0.2, True, False, False, f"perhaps {AUTOTUNE}"),
        ("fill", 0.2, True, False, True, f"perhaps {AUTOTUNE}, or {OTHERS}"),
        ("fill", 0.2, False, False, False, "the measurement does not show the cause"),
        ("drain", 0.8, False, False, True, f"perhaps {OTHERS}"),
        ("fill", 0.4, False, True, False, f"perhaps {CACHE}"),
        ("fill", 0.4, False, True, True, f"perhaps {CACHE}"),
        ("fill", 0.4, True, True, True, f"perhaps {CACHE}, or {AUTOTUNE}"),
        ("fill", 1.2, False, True, False, "perhaps buffers that had filled before"),
        ("drain", 0.8, False, True, True, f"perhaps {OTHERS}"),
        ("drain", 0.8, True, False, False, "the measurement does not show the cause"),
    ],
)
def test_only_a_cause_that_was_there_is_named(
    what, ratio, autotune, cache, busy, cause
):
    """Buffers make an end faster, never slower; AUTOTUNE has begun long before the end.

    Next to a cache, which makes its first pass slower anyway, no other process is
    suspected.
    """
    part = LeftOut(what, 1.0, 100, ratio)

    assert (
        f"the rate was {ratio:.3g} times that of the steady state; {cause}"
        == why_left_out(part, autotune, cache, busy)
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


def test_a_pipeline_has_a_cache_where_a_step_is_one():
    """In memory or in a file, in whatever step."""
    plain = tf.data.Dataset.range(9).batch(2).prefetch(2)
    cached = tf.data.Dataset.range(9).cache().map(lambda x: x).repeat().batch(2)

    assert not has_cache(plain)
    assert has_cache(cached)
    assert has_cache(tf.data.Dataset.zip(plain, plain.cache("kept")))
    with tf.Graph().as_default():
        assert has_cache(tf.compat.v1.data.Dataset.range(9).cache().prefetch(1))
