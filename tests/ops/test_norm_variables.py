"""The variables of norms in functions of TensorFlow 2: named, or refused."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops.normalization_ops import group_norm, instance_norm, layer_norm

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]
v1 = tf.compat.v1
X = np.random.default_rng(4).normal(size=(3, 2, 4)).astype(np.float32)
NORMS = {"group": group_norm, "layer": layer_norm, "instance": instance_norm}
REFUSED = (
    """variable 'beta' of .*Norm cannot be created in a tf.function.*scope="norm1"`"""
)


@contextlib.contextmanager
def placed(inside):
    """Runs functions in a strategy's scope, or outside of one."""
    if not inside:
        yield lambda function, *inputs: function(*inputs)
        return
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    strategy = IPUStrategy()
    with strategy.scope():
        yield lambda function, *inputs: strategy.run(function, inputs)


@pytest.mark.parametrize("jit", [True, None])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_without_a_name_is_refused_in_a_function(name, inside, jit):
    """Each time: a function does not get the variables of one that was refused before."""
    with placed(inside) as run:
        for _ in range(3):
            function = tf.function(lambda x: NORMS[name](x), jit_compile=jit)
            for _ in range(2):
                with pytest.raises(ValueError, match=REFUSED):
                    run(function, X)


@pytest.mark.parametrize("jit", [True, None])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("reuse", [None, v1.AUTO_REUSE])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_with_a_name_is_trained_in_a_function(name, reuse, inside, jit):
    """Its variables are those of all traces, for other shapes too."""
    scope = f"{name}/{reuse}/{inside}/{jit}"

    @tf.function(jit_compile=jit)
    def step(x):
        with tf.GradientTape() as tape:
            y = NORMS[name](x, scope=scope, reuse=reuse)
            loss = tf.reduce_sum(y)  # beta's gradient is the number of its rows
        variables = tape.watched_variables()
        assert [each.name for each in variables] == [
            f"{scope}/beta:0",
            f"{scope}/gamma:0",
        ]
        beta = variables[0]
        beta.assign_add(tape.gradient(loss, beta))
        return beta.read_value()

    with placed(inside) as run:
        for each in (6, 12, 12 + 4):
            found = run(step, X if each <= 12 else X[:2])
            np.testing.assert_allclose(found, np.full(4, each), rtol=1e-6)


@pytest.mark.parametrize("jit", [True, None])
def test_a_scope_around_norms_names_them(jit):
    """Their default names in it are the same in each trace."""

    @tf.function(jit_compile=jit)
    def two(x):
        with v1.variable_scope(f"model {jit}".replace(" ", "_"), reuse=v1.AUTO_REUSE):
            return layer_norm(layer_norm(x))

    once = tf.function(lambda x: layer_norm(x, center=False, scale=False))(X)
    np.testing.assert_allclose(two(X), once, atol=1e-4)
    np.testing.assert_allclose(two(X[:2]), once[:2], atol=1e-4)
