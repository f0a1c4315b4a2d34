"""What programs meet often, in each of the styles in which they are written."""

import numpy as np
import pytest
import tensorflow as tf
from replicated import on
from styles import only

from ipufeed import compat
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler
from ipufeed.device.program.outside_compilation import outside_compilation_scope
from ipufeed.device.program.scopes import ipu_scope, ipu_shard
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import system
from ipufeed.executable.store.counters import reset_stats, stats
from ipufeed.ops import control_flow_ops, op_util
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1
compat.install()
STYLES = ["graph", "graph, while v2", "function"]


@pytest.fixture(params=STYLES)
def ready(request):
    """A style on one IPU."""
    with on(1, request.param) as entered:
        yield entered


@pytest.fixture
def session():
    """A session of an empty graph, and one IPU."""
    system.configure_ipu_system(one_ipu())
    with tf.Graph().as_default(), v1.Session() as entered:
        yield entered


def one_ipu(**options):
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.compilation_poplar_options = options
    return config


def in_a_scope_of_its_own(x):
    with ipu_scope("/device:IPU:0"):
        return x + 1.0


@pytest.mark.parametrize("scope", ["ipu_scope", "device", "inside"])
def test_a_program_may_be_placed_in_each_of_these_ways(session, scope):
    """By either scope around it, or by the function's own."""
    with tf.device("cpu"):
        x = v1.placeholder(tf.float32, [])
    if scope == "ipu_scope":
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(lambda x: x + 1.0, [x])
    elif scope == "device":
        with tf.device("/device:IPU:0"):
            program = compiler.compile(lambda x: x + 1.0, [x])
    else:
        program = compiler.compile(in_a_scope_of_its_own, [x])
    reset_stats()

    assert session.run(program, {x: 2.0}) == [3.0]
    assert stats().compiles == 1


def test_a_program_may_return_what_was_built_before(session):
    """The loss in a list; the update, which is an operation, runs with it."""
    with ipu_scope("/device:IPU:0"):
        weight = v1.get_variable("weight", initializer=tf.constant(1.0))
        loss = weight * 2.0
        train = v1.train.GradientDescentOptimizer(0.25).minimize(loss)
    program = compiler.compile(lambda: (loss, train), [])
    session.run(v1.global_variables_initializer())

    assert session.run(program) == [2.0]
    assert session.run(weight) == 0.5


def test_operations_outside_of_compile_are_clustered(session):
    """The initialization of all variables is a program; a fetch again is none."""
    with ipu_scope("/device:IPU:0"):
        a = v1.get_variable("a", initializer=tf.random.uniform([3]))
        b = v1.get_variable("b", initializer=tf.constant(2.0))
        total, difference = a + b, a - b
    counts = []
    for fetched in (v1.global_variables_initializer(), total, difference, total):
        reset_stats()
        session.run(fetched)
        counts.append(stats().compiles)

    assert counts == [1, 1, 1, 0]


def test_tensorflow_s_own_compile_is_the_same(session):
    """xla.compile, under an IPU's device."""
    from tensorflow.python.compiler.xla import xla

    with tf.device("cpu"):
        x = v1.placeholder(tf.float32, [])
    with ipu_scope("/device:IPU:0"):
        program = xla.compile(lambda x: x * 3.59375, [x])
    reset_stats()

    assert session.run(program, {x: 2.0}) == [7.1875]
    assert stats().compiles == 1


def doubled(style):
    """Runs a program: compiled, outside of a compile, or a function."""
    if style == "function":
        strategy = IPUStrategy()
        with strategy.scope():
            return strategy.run(tf.function(lambda x: x * 2.0), [tf.constant(1.0)])
    with tf.Graph().as_default(), v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            x = v1.placeholder(tf.float32, [])
            y = x * 2.0
            if style == "graph":
                y = compiler.compile(lambda: x * 2.0, [])
        return session.run(y, {x: 1.0})


@pytest.mark.parametrize("style", ["graph", "outside", "function"])
def test_an_unknown_option_of_the_engine_fails_each_program(style):
    """With the original's words; also what is not in a compile."""
    system.configure_ipu_system(one_ipu(some_option="true"))
    with pytest.raises(tf.errors.InternalError, match="option 'some_option'"):
        doubled(style)


def test_an_infeed_of_tensors_of_size_zero_is_refused_by_its_initializer(ready):
    """Not by its constructor."""
    dataset = tf.data.Dataset.from_tensors(np.zeros([0, 3], np.float32)).repeat()
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="with a dimension of size 0"
    ):
        ready.feed(lambda: dataset)


def test_an_outfeed_of_tensors_of_size_zero_is_refused_by_the_run(ready):
    """And not by `enqueue`, which builds a program."""
    outfeed = IPUOutfeedQueue()

    def body(x):
        return x, outfeed.enqueue(tf.zeros([0, 3]))

    run = ready.build(lambda x: ready.repeat(2, body, [x]), 1.0)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="with a dimension of size 0"
    ):
        run(1.0)


def test_a_table_may_be_initialized_after_the_infeed(ready):
    """The dataset is read when the program starts."""
    is_graph = hasattr(ready, "session")
    keys, values = tf.constant([0, 1, 2]), tf.constant([5.0, 6.0, 7.0])
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    table = tf.lookup.StaticHashTable(initializer, -1.0)
    infeed = ready.feed(
        lambda: tf.data.Dataset.range(3).map(
            lambda i: table.lookup(tf.cast(i, tf.int32))
        )
    )
    if is_graph:
        ready.session.run(v1.tables_initializer())

    def body(total, x):
        return total + x

    total = ready.run(lambda x: ready.repeat(3, body, [x], infeed), 0.0)
    assert only(total) == 18.0


@pytest.mark.parametrize("gradients", [True, False])
def test_a_barrier_keeps_values_and_gradients(ready, gradients):
    """The structure, too."""

    def net(x):
        def through(x):
            one = control_flow_ops.barrier({"a": x * 3.0, "b": [x]}, gradients)
            return one["a"] * one["b"][0]

        value = through(x)
        return value, tf.gradients(value, x)[0]

    assert [float(each) for each in ready.run(net, 2.0)] == [12.0, 12.0]


def test_gradients_are_accumulated_in_the_requested_dtype(ready):
    """In the program; a gradient of None stays None."""
    weight = ready.variable(np.float16(1.0), "weight")

    def net(x):
        pairs = [(tf.cast(x, tf.float16), weight), (None, weight)]
        (found, of), (none, _) = op_util.accumulate_gradients(
            pairs, tf.float32, 1.0, 0.5
        )
        assert none is None
        assert of is weight
        return found

    found = only(ready.run(net, 4.0))
    assert found == 2.0
    assert found.dtype == np.float32


def test_a_part_on_the_host_runs_in_a_loop_and_in_a_branch(ready, capfd):
    """Which the original refuses."""

    def body(x):
        def there():
            with outside_compilation_scope():
                done = tf.print("seen", x)
            with tf.control_dependencies([done]):
                return x + 1.0

        return tf.cond(x > 1.5, there, lambda: x + 1.0)

    assert only(ready.run(lambda x: ready.repeat(3, body, [x]), 0.0)) == 3.0
    assert capfd.readouterr().err.count("seen 2") == 1


@pytest.mark.parametrize(("ipus", "replicas"), [(4, 1), (8, 2)])
@pytest.mark.parametrize("style", STYLES)
def test_shards_are_rounded_up_to_a_power_of_two(style, ipus, replicas):
    """Three are four: eight IPUs have two replicas."""
    outfeed = IPUOutfeedQueue()

    def body(x):
        for shard in range(3):
            with ipu_shard(shard):
                x = x + 1.0
        return x, outfeed.enqueue(x)

    with on(ipus, style) as ready:
        total = ready.run(lambda x: ready.repeat(2, body, [x]), 0.0)
        found = ready.read(outfeed.dequeue())

    assert np.ravel(only(total))[0] == 6.0
    assert np.shape(found) == ((2,) if replicas == 1 else (2, replicas))


@pytest.mark.parametrize("style", STYLES)
def test_a_group_of_size_zero_is_all_replicas(style):
    """As None is."""

    def net(x):
        rank = x + 1.0
        return [collectives.cross_replica_sum(rank, size) for size in (0, None)] + [
            collectives.cross_replica_mean(rank, 0)
        ]

    with on(2, style) as ready:
        found = ready.run(net, 1.0)
    assert [float(np.ravel(each)[0]) for each in found] == [4.0, 4.0, 2.0]


@pytest.mark.parametrize("style", STYLES)
def test_what_is_equal_across_replicas_decides_in_loops_and_branches(style):
    """The hint keeps a nest as it is."""

    def body(x, n):
        n, _ = collectives.assume_equal_across_replicas([n, x])
        return tf.cond(n > 0, lambda: x + 1.0, lambda: x), n - 1

    with on(2, style) as ready:
        found, _ = ready.run(lambda x: ready.repeat(4, body, [x, 2]), 0.0)
    assert np.ravel(found).tolist()[0] == 2.0


def test_reductions_of_a_strategy_are_sum_and_mean():
    """Over the program's replicas."""
    with on(2, "function") as ready:

        def net(x):
            context = tf.distribute.get_replica_context()
            reduce = tf.distribute.ReduceOp
            return context.all_reduce(reduce.SUM, x), context.all_reduce(reduce.MEAN, x)

        total, mean = ready.run(net, 3.0)
        assert (np.ravel(total)[0], np.ravel(mean)[0]) == (6.0, 3.0)


def test_variables_of_a_loop_have_names_from_the_root():
    """Checkpoints rely on them."""
    with on(1, "graph") as ready:

        def body(x):
            with v1.variable_scope("stage", reuse=v1.AUTO_REUSE):
                weight = v1.get_variable("kernel", initializer=2.0, use_resource=True)
            return tf.multiply(x, weight, name="product")

        assert only(ready.run(lambda x: ready.repeat(2, body, [x]), 1.0)) == 4.0
        assert [each.name for each in v1.global_variables()] == ["stage/kernel:0"]
        assert ready.session.graph.get_operation_by_name("product").type == "Mul"


def test_only_functions_of_tensorflow_run_in_eager_mode():
    """Compiled functions do, too."""
    system.configure_ipu_system(one_ipu())
    strategy = IPUStrategy()
    function = tf.function(lambda x: x + 1.0)
    with strategy.scope():
        assert strategy.run(function, [tf.constant(1.0)]) == 2.0
        concrete = function.get_concrete_function(tf.constant(1.0))
        assert strategy.run(concrete, [tf.constant(1.0)]) == 2.0
        with pytest.raises(ValueError, match=r"tf\.function"):
            strategy.run(lambda x: x + 1.0, [tf.constant(1.0)])


def test_a_failing_dataset_raises_where_the_program_runs(ready):
    """The original ends the process."""

    def fail(i):
        with tf.control_dependencies(
            [tf.debugging.assert_less(i, tf.constant(2, tf.int64))]
        ):
            return tf.cast(i, tf.float32)

    infeed = ready.feed(lambda: tf.data.Dataset.range(5).map(fail))
    with pytest.raises(tf.errors.OpError, match="infeed dataset iterator has failed"):
        ready.run(lambda x: ready.repeat(4, lambda s, x: s + x, [x], infeed), 0.0)


def test_a_queue_is_made_of_a_dataset(session):
    """And of nothing else."""
    with pytest.raises(TypeError, match="dataset"):
        IPUInfeedQueue([1, 2, 3])
