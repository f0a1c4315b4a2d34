"""Strategies and host collectives of several processes, and of one alone."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_cluster

from ipufeed import compat
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategyV1
from ipufeed.programs import host_collectives as host
from ipufeed.programs.popdist_strategy import (
    IPUDistributedVariable,
    IPUMirroredVariable,
    IPUMultiWorkerStrategyV1,
    PopDistExtendedV1,
    PopDistStrategy,
)

COUNT = 2
pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]


def run_processes(*arguments):
    """What each process of strategy_process.py says by the case."""
    ended = run_cluster("strategy_process.py", *arguments)
    for code, _, err in ended:
        assert code in (0, 3), err
    return [said for _, said, _ in ended]


@pytest.fixture(scope="module", params=["1", "2"], ids=["1 IPU", "2 IPUs"])
def said(request):
    """By process and case; and how many IPUs each has."""
    return run_processes(request.param), int(request.param)


@pytest.mark.process
def test_values_of_all_processes_are_gathered_on_the_host(said):
    """In every dtype, the same in each process, also from a session."""
    processes, _ = said
    for process in processes:
        for dtype in (
            "float32",
            "float16",
            "int32",
            "int64",
            "bool",
            "uint8",
            "float64",
        ):
            wanted = np.array([[0, 1, 0], [1, 2, 0]]).astype(dtype)
            assert process[f"gather {dtype}"] == wanted.tolist()
        assert (
            process["warnings"] == []
        )  # of one program that is compiled or traced again
        assert process["broadcast"] == ["3.0", "nan", "inf"]
        assert process["sum"] == [3.0, 1.0]
        assert process["mean"] == [0.5, 2.0]
        assert process["in a graph"] == [[5], [6]]
        assert process["of unknown rank"] == [[0.5, 4.0]]
        assert process["horovod's average"] == [[0.5, 4.0]]
        assert process["horovod's sum"] == [[1.0, 8.0]]
        assert process["horovod's rows"] == [[0.0, 4.0], [1.0, 4.0]]
        assert process["horovod's broadcast"] == [[1.0, 4.0]]
        assert process["horovod's slices"] == [[0.0, 2.0], [0.5, 2.0], [0.0, 0.0]]
        assert process["reduce"] == 3.0


def weights_of_numpy(ipus):
    """Two weights after three steps whose gradients are summed over all replicas."""
    data = np.arange(8, dtype=np.float64).reshape(4, 2)
    weights = np.array([1.0, 2.0])
    for _ in range(3):
        gradient = sum(
            2 * rows.T @ (rows @ weights) / len(rows)
            for rows in (data[::2], data[1::2])
        )
        weights = weights - 0.01 * ipus * gradient
    return weights


@pytest.mark.process
def test_empty_values_are_gathered_on_the_host(said):
    """Of no elements, with the shape of the result."""
    for process in said[0]:
        assert process["empty"] == [[COUNT, 0, 3], [0, 3], [0, 3]]


@pytest.mark.process
def test_variables_of_version_1_have_the_values_of_the_first_process(said):
    """All of a graph in one run; an optimizer sums the gradients of all replicas."""
    processes, ipus = said
    step = 0.5 * COUNT * ipus
    for process in processes:
        assert process["version 1, at first"] == [[1.0, 2.0], 3.0]
        assert process["version 1, after"] == [[1.0 - step, 2.0 - 2 * step], 3.0 - step]


@pytest.mark.process
def test_collectives_of_one_run_have_one_order_in_all_processes(said):
    """That of their calls, whichever input comes first; others are not run."""
    for process in said[0]:
        *runs, two = process["of one run"]
        for run, (rows, sums, last) in enumerate(runs):
            both = 3.0 + 2 * run
            assert sums == [both, *(both * 10**i for i in range(4))]
            assert rows == [[1000 * both, both]] * COUNT
            assert last == 2.0 + run
        assert two == [200.0, 2.0]


@pytest.mark.process
def test_processes_with_unlike_shapes_are_named_and_remain_in_step(said):
    """Each process gets the error, with the shapes of all, and goes on."""
    for process in said[0]:
        (kind, rows), (_, long), (_, dtypes) = process["unlike"]
        assert kind == "InvalidArgumentError"
        assert "process 0 has float32 [0, 2]; process 1 has float32 [1, 2]." in rows
        assert long.count("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]...") == 2
        assert "process 0 has float32 [2]; process 1 has float64 [2]." in dtypes
        assert process["after unlike"] == [COUNT]


@pytest.mark.process
@pytest.mark.parametrize("strategy", ["PopDist", "MultiWorker"])
def test_training_in_two_processes_is_that_of_the_formula(said, strategy):
    """Variables begin with the values of process 0, and stay equal."""
    processes, ipus = said
    assert processes[0]["replicas"] == COUNT * ipus
    for process in processes:
        first, last = process[strategy]
        assert first == [1.0, 2.0]
        np.testing.assert_allclose(last, weights_of_numpy(ipus), rtol=1e-5)
    assert processes[0][strategy] == processes[1][strategy]


@pytest.mark.process
def test_a_keras_model_trains_on_the_batches_of_all_processes(said):
    """As stock Keras does on one process, with all replicas' batches as one."""
    import keras

    processes, ipus = said
    before, after, losses = processes[0]["Keras"]
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1, 0.9), "mse")
    model.set_weights([np.array(each) for each in before])
    rows = np.random.default_rng(0).normal(size=[32, 3]).astype("float32")
    history = model.fit(rows[:, :2], rows[:, 2:], 8, epochs=2, verbose=0, shuffle=False)

    assert processes[1]["Keras"][:2] == [before, after]
    for one, other in zip(after, model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    if ipus == 1:  # else they are of each process's last replica
        mean = np.mean([losses, processes[1]["Keras"][2]], axis=0)
        np.testing.assert_allclose(mean, history.history["loss"], rtol=1e-5)


@pytest.mark.process
@pytest.mark.parametrize("case", ["accumulated", "pipelined"])
def test_a_keras_model_accumulates_gradients_of_all_processes(said, case):
    """As stock Keras does with the batches of an update as one; losses are whole."""
    import keras

    processes, ipus = said
    if case not in processes[0]:
        assert ipus == 1  # a pipeline of two stages needs two
        return
    replicas = ipus if case == "accumulated" else 1
    before, after, losses = processes[0][case]
    first = keras.layers.Dense(4, activation="tanh", kernel_regularizer="l2")
    model = keras.Sequential([keras.Input((2,)), first, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1, 0.9), "mse")
    model.set_weights([np.array(each) for each in before])
    rows = np.random.default_rng(0).normal(size=[32, 3]).astype("float32")
    size = 2 * 4 * COUNT * replicas
    history = model.fit(
        rows[:, :2], rows[:, 2:], size, epochs=2, verbose=0, shuffle=False
    )

    assert processes[1][case][:2] == [before, after]
    for one, other in zip(after, model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    if replicas == 1:  # else they are of each process's last replica
        mean = np.mean([losses, processes[1][case][2]], axis=0)
        np.testing.assert_allclose(mean, history.history["loss"], rtol=1e-5)


@pytest.mark.process
def test_a_process_that_goes_is_named_to_the_others():
    """They do not wait for it."""
    first, _ = run_processes("1", "leaves")

    assert first["before"] == 2.0
    assert "1 of 2" in first["heard"] or "process 1" in first["heard"].lower()


def test_alone_a_strategy_is_that_of_one_process(monkeypatch):
    """Without TF_CONFIG; under each of its names."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = PopDistStrategy()
    config = strategy.update_ipu_config(IPUConfig())
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    assert strategy.num_replicas_in_sync == 1
    assert isinstance(strategy, IPUStrategyV1)
    assert isinstance(strategy.extended, PopDistExtendedV1)

    with strategy.scope():
        variable = tf.Variable([1.0, 2.0])
        strategy.run(
            tf.function(lambda: variable.assign_add([1.0, 1.0]), jit_compile=True)
        )
    assert variable.numpy().tolist() == [2.0, 3.0]
    assert "IPU" in variable.device
    for place in ("horovod.popdist_strategy", "distributed.popdist_strategy"):
        assert compat.submodule(place).PopDistStrategy is PopDistStrategy
    older = compat.submodule("horovod.ipu_horovod_strategy").IPUHorovodStrategy
    assert older is PopDistStrategy
    assert issubclass(IPUMirroredVariable, tf.Variable)
    assert issubclass(IPUDistributedVariable, tf.Variable)


def test_reductions_can_be_left_out_and_others_are_refused(monkeypatch):
    """On two replicas: with them a sum, without them the replica's own."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    kinds = tf.distribute.ReduceOp
    for reduces, wanted in ((True, 10.0), (False, 5.0)):
        strategy = PopDistStrategy(add_ipu_cross_replica_reductions=reduces)

        def reduce(extended=strategy.extended):
            return extended._reduce_to(kinds.SUM, tf.constant(5.0), None, None)

        with strategy.scope():
            found = strategy.run(tf.function(reduce, jit_compile=True))
        assert float(found) == wanted
        with pytest.raises(ValueError, match="Unsupported reduce op: other"):
            strategy.extended._reduce_to("other", 1.0, None, None)


def test_wrong_arguments_are_refused(monkeypatch):
    """With what to give."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(TypeError, match="`config` must be an IPUConfig"):
        PopDistStrategy().update_ipu_config({})
    with pytest.raises(ValueError, match="Unsupported reduce op: max"):
        host.allreduce(1.0, "max")
    with pytest.raises(ValueError, match="`root_rank` must be the number of one of 1"):
        host.broadcast(1.0, 3)
    with pytest.raises(TypeError, match=r"take tensors of .* got string"):
        host.allgather("a")
    with pytest.raises(TypeError, match="bools are not summed"):
        host.allreduce(True)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["localhost:1", "localhost:2"]})
    )
    with pytest.raises(ValueError, match="names 2 workers, and TF_CONFIG 1"):
        IPUMultiWorkerStrategyV1(resolver)
    for wrong, words in ((3, "int 3"), (type(resolver), "such as .* got ABCMeta ")):
        with pytest.raises(TypeError, match=f"`cluster_resolver` must be .*{words}"):
            IPUMultiWorkerStrategyV1(wrong)
