"""Graphcore's names: one table, all of it true, in three ways of asking."""

import importlib
import operator
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_python

import ipufeed
from ipufeed import compat, graphcore_names
from ipufeed.programs import missing_modules
from ipufeed.tf_patches import removed_names

# Names that programs use, written by hand from what the original's programs import.
USED = {
    "config": (
        "IPUConfig DeviceConnectionType SelectionOrder SchedulingAlgorithm "
        "StochasticRoundingBehaviour MergeRemoteBuffersBehaviour "
        "configure_ipu_system get_ipu_config reset_ipu_configuration"
    ),
    "dataset_benchmark": "dataset_benchmark infeed_benchmark",
    "eager.backprop": "GradientCaptureContext GradientCaptureTape",
    "gradient_accumulation": "GradientAccumulationReductionMethod",
    "ipu_compiler": "compile",
    "ipu_infeed_queue": "IPUInfeedQueue IPUIterator IPUOwnedIterator",
    "ipu_outfeed_queue": (
        "IPUOutfeedQueue IPUOutfeedMode IPUOutfeedQueueIterator ScopedIPUOutfeedQueue"
    ),
    "ipu_strategy": "IPUStrategy IPUStrategyV1",
    "loops": "repeat while_loop",
    "cross_replica_ops": "cross_replica_mean cross_replica_sum",
    "embedding_ops": "embedding_lookup",
    "f8_ops": "Format QuarterTensor convert_from_f8 convert_to_f8 f8_matmul",
    "popfloat_cast_to_gfloat": "GenericFloat cast_native_to_gfloat",
    "normalization_ops": "group_norm instance_norm layer_norm",
    "ops.all_to_all_op": "all_gather all_to_all",
    "ops.cross_replica_ops": "cross_replica_mean cross_replica_sum",
    "ops.functional_ops": "outlined_function",
    "ops.grad_util_ops": "capture_upstream_gradients",
    "ops.custom_ops": "cpu_user_operation precompiled_user_op",
    "ops.internal_ops": "fifo get_current_iteration_counter print_tensor",
    "ops.nn_ops": "gelu multi_conv sampled_softmax_loss softmax swish",
    "ops.rand_ops": "dropout",
    "ops.reduce_scatter_op": "reduce_scatter",
    "ops.replication_ops": "replication_index",
    "optimizers": (
        "CrossReplicaOptimizer CrossReplicaGradientAccumulationOptimizer "
        "CrossReplicaGradientAccumulationOptimizerV2 GradientAccumulationOptimizer "
        "GradientAccumulationOptimizerV2 IpuOptimizer MapGradientOptimizer "
        "MapGradientOptimizerInvertedChaining ShardedOptimizer"
    ),
    "optimizers.cross_replica_optimizer": "CrossReplicaOptimizer",
    "optimizers.gradient_accumulation_optimizer": (
        "CrossReplicaGradientAccumulationOptimizer "
        "CrossReplicaGradientAccumulationOptimizerV2 GradientAccumulationOptimizer "
        "GradientAccumulationOptimizerV2"
    ),
    "optimizers.map_gradient_optimizer": "MapGradientOptimizer",
    "optimizers.sharded_optimizer": "ShardedOptimizer",
    "replication_ops": "replication_index",
    "sharded_optimizer": "ShardedOptimizer",
    "scopes": (
        "ipu_scope ipu_jit_scope ipu_shard frontend_attribute "
        "stochastic_rounding partials_type outside_compilation_scope"
    ),
    "sharding": "get_sharding propagate_sharding",
    "utils": (
        "create_ipu_config auto_select_ipus select_ipus IPUConfig "
        "configure_ipu_system get_ipu_config reset_ipu_configuration "
        "get_num_of_ipus_in_device reset_ipu_seed running_on_ipu_model "
        "use_synthetic_data_for SyntheticDataCategory DeviceConnectionType "
        "SelectionOrder set_ipu_connection_type set_ipu_model_options "
        "set_compilation_options set_convolution_options set_matmul_options "
        "set_pooling_options set_norm_options set_report_options "
        "set_recomputation_options set_optimization_options "
        "set_floating_point_behaviour_options set_io_tile_options "
        "set_serialization_options set_transfer_options set_gcl_options "
        "move_variable_initialization_to_cpu"
    ),
}


@pytest.fixture
def installed():
    """As `python -m ipufeed.run` installs it, once for the process."""
    compat.install()
    return sys.modules[compat.ALIAS]


@pytest.mark.parametrize(
    ("module", "attribute"),
    [(module, name) for module, names in USED.items() for name in names.split()],
)
def test_a_name_that_programs_use_is_there(module, attribute):
    """Under `import ipufeed as ipu`, with the same object each time."""
    found = operator.attrgetter(f"{module}.{attribute}")(ipufeed)

    assert callable(found) or isinstance(found, type)
    assert getattr(compat.submodule(module), attribute) is found


@pytest.mark.parametrize("module", sorted(graphcore_names.MODULES))
def test_every_name_of_the_table_exists(module):
    """`__all__` and `dir` have them, and so a star import has."""
    found = compat.submodule(module)

    assert set(found.__all__) == set(graphcore_names.MODULES[module]) <= set(dir(found))
    for name in found.__all__:
        assert getattr(found, name) is not None


def test_the_package_has_its_own_names():
    """As Graphcore's package has, besides its modules."""
    for name, module in graphcore_names.TOP.items():
        assert getattr(ipufeed, name) is getattr(importlib.import_module(module), name)


def test_everything_the_package_lists_can_be_had():
    """`dir(ipufeed)` promises no more than there is, and every module of the table."""
    for name in dir(ipufeed):
        assert getattr(ipufeed, name) is not None
    modules = {name.partition(".")[0] for name in graphcore_names.MODULES}
    assert modules <= set(dir(ipufeed))


def test_the_alias_gives_the_same_objects(installed):
    """Whichever way they are imported."""
    from tensorflow.python import ipu
    from tensorflow.python.ipu import loops
    from tensorflow.python.ipu.ipu_infeed_queue import IPUInfeedQueue

    assert ipu is installed
    assert loops is ipu.loops is ipufeed.loops
    assert IPUInfeedQueue is ipu.IPUInfeedQueue is ipufeed.queues.IPUInfeedQueue
    modules = {name.partition(".")[0] for name in graphcore_names.MODULES}
    assert modules | set(graphcore_names.TOP) <= set(dir(ipu))


def test_modules_of_a_package_can_be_imported(installed):
    """In each of the ways that programs have."""
    import ipufeed.ops.cross_replica_ops as ours
    from tensorflow.python.ipu.ops import cross_replica_ops
    from tensorflow.python.ipu.optimizers import cross_replica_optimizer

    assert cross_replica_ops is ipufeed.ops.cross_replica_ops is ours
    assert cross_replica_optimizer is ipufeed.optimizers.cross_replica_optimizer


def test_a_module_at_two_places_has_the_same_objects(installed):
    """Pipelines are in `ops`, and in the package itself."""
    from tensorflow.python.ipu import pipelining_ops
    from tensorflow.python.ipu.ops import pipelining_ops as inner

    assert inner.pipeline is pipelining_ops.pipeline


def test_installing_twice_changes_nothing(installed):
    """The modules remain, with what has been looked up."""
    modules = [
        sys.modules[f"{compat.ALIAS}.{name}"] for name in graphcore_names.MODULES
    ]
    compat.install()

    assert sys.modules[compat.ALIAS] is installed
    assert modules == [
        sys.modules[f"{compat.ALIAS}.{name}"] for name in graphcore_names.MODULES
    ]


def test_a_name_that_is_not_there_is_refused_with_those_that_are(installed):
    """In a module and in the package; a module that is not there cannot be imported."""
    with pytest.raises(AttributeError, match=r"'nonsense'. It has: repeat, while_loop"):
        _ = installed.loops.nonsense
    with pytest.raises(
        AttributeError,
        match=r"'nonsense'. It has: IPUConfig, .*\. Its modules: .*, optimizers, ",
    ):
        _ = installed.nonsense
    with pytest.raises(ImportError, match="nonsense"):
        importlib.import_module("tensorflow.python.ipu.nonsense")
    assert not hasattr(installed, "nonsense")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("backprop", "ipu.eager.backprop"),
        ("cross_replica_sum", "ipu.ops.cross_replica_ops.cross_replica_sum"),
        ("repeat", "ipu.loops.repeat"),
    ],
)
def test_a_name_that_is_elsewhere_is_refused_with_its_place(installed, name, place):
    """A module, as the name of a class or a function."""
    with pytest.raises(AttributeError, match=rf" There is {place}\.$"):
        getattr(installed, name)


POPLAR = "tensorflow.compiler.plugin.poplar"
MODULES = [
    (f"{POPLAR}.driver", "trace_pb2", "no events .*autoReport.all.* explain"),
    (f"{POPLAR}.driver", "backend_config_pb2", "ipu.config.IPUConfig"),
    (f"{POPLAR}.ops", "gen_popops_ops", "ipu.cross_replica_ops"),
    (f"{POPLAR}.ops", "gen_poputil_op", r"The nearest is .*\.gen_poputil_ops\.$"),
    (f"{POPLAR}.tests", "test_utils", "ipu.config.IPUConfig"),
    ("tensorflow.python.ipu", "test_utils", "ipu.config.IPUConfig"),
    ("tensorflow.python.ipu", "variables", "a tf.Variable in the scope"),
    ("tensorflow.python.ipu.loops", "repeats", "The nearest is ipu.loops.repeat"),
    ("tensorflow.python.ipu.ops", "loops", "There is ipu.loops"),
]


@pytest.mark.parametrize(("package", "name", "words"), MODULES)
def test_a_module_that_is_not_there_is_refused_with_what_to_use(
    installed, package, name, words
):
    """In both ways of importing it; a program may try it and go on."""
    with pytest.raises(ModuleNotFoundError, match=words):
        importlib.import_module(f"{package}.{name}")
    with pytest.raises(ImportError, match=words):
        exec(f"from {package} import {name}", {})


def test_every_replacement_of_a_missing_module_exists(installed):
    """The names of our package that the texts mention."""
    for text in missing_modules.MISSING.values():
        for name in re.findall(r"\bipu\.([\w.]*\w)", text):
            assert operator.attrgetter(name)(ipufeed) is not None


def test_the_stages_of_calls_are_in_the_extensions_too(installed):
    """As in the original."""
    from tensorflow.python.ipu.keras import extensions

    for name in dir(ipufeed.keras):
        if name.endswith("StageAssignment"):
            assert getattr(extensions, name) is getattr(ipufeed.keras, name)


@pytest.mark.process
def test_importing_a_module_of_the_table_under_our_name():
    """`import ipufeed.loops` and `from ipufeed.loops import repeat` work as well."""
    done = run_python(
        "import ipufeed.loops\n"
        "from ipufeed.utils import create_ipu_config\n"
        "from ipufeed import scopes\n"
        "print(ipufeed.loops.repeat.__name__, create_ipu_config.__name__)\n"
    )

    assert done.stdout == "repeat create_ipu_config\n", done.stderr


@pytest.mark.process
def test_without_installing_there_is_no_alias():
    """Importing ipufeed changes nothing of TensorFlow's."""
    done = run_python(
        "import ipufeed, tensorflow as tf\n"
        "assert not hasattr(tf.compat.v1.layers, 'dense')\n"
        "import tensorflow.python.ipu\n"
    )

    assert "No module named 'tensorflow.python.ipu'" in done.stderr


@pytest.mark.parametrize(
    "name",
    sorted(name for names in removed_names.LAYERS.values() for name in names.split()),
)
def test_a_layer_of_version_1_is_given_back(installed, name):
    """Keras 3 has taken it out of tf.compat.v1.layers."""
    assert callable(getattr(tf.compat.v1.layers, name))


@pytest.mark.parametrize(
    "name",
    sorted(name for names in removed_names.CELLS.values() for name in names.split()),
)
def test_a_cell_of_version_1_is_given_back(installed, name):
    """Keras 3 has taken it out of tf.compat.v1.nn.rnn_cell."""
    assert isinstance(getattr(tf.compat.v1.nn.rnn_cell, name), type)


def test_names_of_keras_2_are_given_back(installed):
    """Functions of losses, and what was experimental; by attribute and by import."""
    experimental = importlib.import_module("tensorflow.keras.layers.experimental")
    for keras in (tf.keras, tf.compat.v1.keras, sys.modules["tensorflow.keras"]):
        assert keras.losses.mean_squared_error([[1.0]], [[3.0]]).numpy() == [4.0]
        assert keras.metrics.mean_absolute_error([[1.0]], [[3.0]]).numpy() == [2.0]
        preprocessing = keras.layers.experimental.preprocessing
        assert preprocessing.Rescaling(0.5)(np.ones([2])).numpy().tolist() == [0.5] * 2
        assert preprocessing is experimental.preprocessing
        assert keras.experimental.CosineDecay(0.1, 10)(0).numpy() == np.float32(0.1)
        assert keras.mixed_precision.experimental.global_policy().name == "float32"
    for name in removed_names.FUNCTIONS:
        assert getattr(tf.losses, name) is getattr(tf.metrics, name)
    for name in removed_names.EXPERIMENTAL:
        assert importlib.import_module(f"tensorflow.keras.{name}")


def trained(model, x, on_ipu):
    """The losses of three steps of a version 1 model, on an IPU or without."""
    v1 = tf.compat.v1

    def step(x):
        with v1.variable_scope("net", initializer=tf.constant_initializer(0.1)):
            loss = tf.reduce_sum(model(x) ** 2)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            return loss, v1.train.GradientDescentOptimizer(0.01).minimize(loss)

    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable_scope().set_use_resource(True)
        place = v1.placeholder(tf.float32, x.shape)
        if on_ipu:
            with ipufeed.scopes.ipu_scope("/device:IPU:0"):
                run = ipufeed.ipu_compiler.compile(step, [place])
        else:
            run = step(place)
        session.run(v1.global_variables_initializer())
        losses = [session.run(run, {place: x})[0] for _ in range(3)]
        return losses, [variable.name for variable in v1.global_variables()]


def recurrent(x):
    rnn_cell = tf.compat.v1.nn.rnn_cell
    cells = [rnn_cell.BasicLSTMCell(4), rnn_cell.LSTMCell(3), rnn_cell.GRUCell(2)]
    cell = rnn_cell.MultiRNNCell(cells)
    return tf.compat.v1.nn.dynamic_rnn(cell, x, dtype=tf.float32)[0]


def normalized(x):
    layers = tf.compat.v1.layers
    y = layers.batch_normalization(layers.dense(x, 4), training=True, momentum=0.9)
    return layers.BatchNormalization(name="second")(tf.nn.relu(y) + x[..., :1])


@pytest.mark.filterwarnings("ignore:.*is deprecated:UserWarning")
@pytest.mark.parametrize(
    ("model", "names"),
    [
        (recurrent, ["net/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel:0"]),
        (normalized, ["net/batch_normalization/gamma:0", "net/second/moving_mean:0"]),
    ],
)
def test_models_of_version_1_train_on_an_ipu_as_without(installed, model, names):
    """With cells of `tf.nn.rnn_cell`, and batch normalization, of the same names."""
    x = np.random.default_rng(0).random((2, 5, 3), np.float32)
    expected, found = trained(model, x, on_ipu=True), trained(model, x, on_ipu=False)

    np.testing.assert_allclose(*(losses for losses, _ in (expected, found)), rtol=1e-4)
    assert expected[1] == found[1]
    assert {*names} < {*found[1]}


def test_batch_normalization_needs_tf_keras(installed, monkeypatch):
    """Which need not be installed: the error says how it is."""
    monkeypatch.setitem(
        sys.modules, "tf_keras.src.legacy_tf_layers.normalization", None
    )
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'ipufeed\[legacy_ker"):
        tf.compat.v1.layers.batch_normalization(tf.zeros([2, 2]))


@pytest.mark.filterwarnings("ignore:.*is deprecated:UserWarning")
def test_layers_of_version_1_compute_in_a_graph(installed):
    """Functions make variables under their names, and reuse them."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = tf.ones([2, 4, 4, 3])
        for _ in range(2):
            with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
                y = v1.layers.conv2d(x, 5, 3, name="conv")
                y = v1.layers.max_pooling2d(y, 2, 2)
                y = v1.layers.dense(v1.layers.flatten(y), 7, name="dense")
        session.run(v1.global_variables_initializer())
        assert session.run(y).shape == (2, 7)
        assert [variable.name for variable in v1.trainable_variables()] == [
            "net/conv/kernel:0",
            "net/conv/bias:0",
            "net/dense/kernel:0",
            "net/dense/bias:0",
        ]


@pytest.mark.process
@pytest.mark.parametrize(
    "line",
    [
        "import tensorflow.compat.v1 as v1",
        "from tensorflow.compat import v1",
        "import tensorflow as tf; v1 = tf.compat.v1",
        "import tensorflow as tf; v1 = tf.compat.v1; import tensorflow.compat.v1",
    ],
)
def test_layers_of_version_1_are_there_however_it_is_imported(line):
    """TensorFlow makes a module of its own for some of these."""
    done = run_python(
        "import ipufeed.compat; ipufeed.compat.install()\n"
        f"{line}\n"
        "print(v1.layers.dense.__name__)\n"
    )

    assert done.stdout == "dense\n", done.stderr
