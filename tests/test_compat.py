"""Graphcore's names: one table, all of it true, in three ways of asking."""

import importlib
import operator
import re
import sys

import pytest
from helpers import run_python

import ipufeed
from ipufeed import compat, graphcore_names
from ipufeed.programs import missing_modules

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
        "set_verification_options VerificationOptions KeyId extract_all_io_events "
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


def test_a_question_for_the_file_of_a_module_searches_for_no_name(
    installed, monkeypatch
):
    """AutoGraph asks each module for its file, at each function that it converts."""
    searched = []
    monkeypatch.setattr(compat, "_elsewhere", lambda name: searched.append(name) or "")
    for name in graphcore_names.MODULES:
        assert not hasattr(sys.modules[f"{compat.ALIAS}.{name}"], "__file__")
    assert not searched
    assert not hasattr(installed, "nonsense")
    assert searched == [f"{compat.ALIAS}.nonsense"]


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
