"""Random initial values of variables in version 1 graphs draw the device's seeds."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.system import system
from ipufeed.device.system.seeds import reset_ipu_seed

pytestmark = pytest.mark.usefixtures("clean_system")


@pytest.fixture(autouse=True)
def _as_before():
    """No executor stays."""
    yield
    params.set_executor("xla")


def initial(executor="xla", seed=None, graph_seed=None, **options):
    """Two variables of a version 1 graph on an IPU, each initialized twice: [2, 2, 64]."""
    v1 = tf.compat.v1
    params.set_executor(executor)
    system.reset_ipu_configuration()  # and the seed
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    if seed is not None:
        reset_ipu_seed(seed)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(graph_seed)
        make = options.get("make", v1.random_normal_initializer)
        with ipu_scope("/device:IPU:0"):
            variables = [
                v1.get_variable(
                    name,
                    shape=[64],
                    dtype=options.get("dtype", tf.float32),
                    initializer=make(seed=options.get("op_seed")),
                    use_resource=True,
                )
                for name in "ab"
            ]
        found = []
        for _ in range(2):
            session.run(v1.global_variables_initializer())
            found.append(session.run(variables))
    return np.array(found)


def different(rows):
    """Whether no two rows are equal."""
    return len({each.tobytes() for each in rows}) == len(rows)


EXECUTORS = pytest.mark.parametrize("executor", ["xla", "tensorflow"])


@EXECUTORS
def test_initializers_draw_the_device_s_seeds(executor):
    """TensorFlow builds them outside of all scopes; XLA has the same in each process."""
    first, again, other = (initial(executor, seed) for seed in (3, 3, 4))
    unseeded = [initial(executor) for _ in range(2)]

    np.testing.assert_array_equal(first, again)
    assert different([*first.reshape([-1, 64]), *other.reshape([-1, 64])])
    assert different(np.reshape(unseeded, [-1, 64]))


def test_initializers_are_the_same_compiled_and_on_the_executor():
    """Given a seed of the device, and with one of the graph alone."""
    for seeds in ((3, None), (None, 7), (3, 7)):
        compiled, alone = (initial(each, *seeds) for each in ("xla", "tensorflow"))
        np.testing.assert_array_equal(compiled, alone)


@EXECUTORS
@pytest.mark.parametrize("kind", ["graph", "op"])
def test_initializers_keep_their_own_seeds_unless_the_device_has_one(executor, kind):
    """Those of the graph, or of the op."""

    def of(number, seed=None):
        if kind == "graph":
            return initial(executor, seed, number)
        return initial(executor, seed, op_seed=number)

    np.testing.assert_array_equal(of(7), of(7))
    assert different([*of(7)[0].reshape([-1, 64])[:1], *of(8)[0].reshape([-1, 64])[:1]])
    np.testing.assert_array_equal(of(7, 3), of(7, 3))
    assert different([of(7)[0, 0], of(7, 3)[0, 0], of(8, 3)[0, 0], of(7, 4)[0, 0]])


@EXECUTORS
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["uniform", "normal", "truncated"])
def test_initializers_have_their_distribution(executor, kind, dtype):
    """Bounds, mean and deviation."""
    v1 = tf.compat.v1
    made = {
        "uniform": lambda seed: v1.random_uniform_initializer(2, 4, seed),
        "normal": lambda seed: v1.random_normal_initializer(3, 0.5, seed),
        "truncated": lambda seed: v1.truncated_normal_initializer(3, 0.5, seed),
    }
    found = initial(executor, 5, make=made[kind], dtype=tf.as_dtype(dtype))

    assert found.dtype == dtype
    assert abs(found.mean() - 3) < 0.2
    assert 0.3 < found.std() < 0.7
    if kind != "normal":
        assert found.min() >= 2
        assert found.max() <= 4
