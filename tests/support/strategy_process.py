"""One of the processes of test_popdist_strategy.py: says what comes of each case.

    TF_CONFIG=... python strategy_process.py IPUS [leaves | alone FOLDER]

Prints a JSON object for each case. With `leaves` all but the first process go, and the
first says what it gets of them. With `alone` the first evaluates and saves models while
the others go on.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf
from helpers import print_stacks_on_signal

import ipufeed as ipu
from ipufeed.programs import horovod, popdist
from ipufeed.programs import host_collectives as host
from ipufeed.programs.popdist_strategy import IPUMultiWorkerStrategyV1, PopDistStrategy

INDEX = popdist.getInstanceIndex()
COUNT = popdist.getNumInstances()


def say(case: str, result: Any) -> None:
    sys.stdout.write(json.dumps({case: result}) + "\n")
    sys.stdout.flush()


def error_of(function: Any, value: tf.Tensor) -> list[str]:
    """The class of an error of a collective, and its text."""
    try:
        return [str(function(value))]
    except tf.errors.OpError as error:
        return [type(error).__name__, error.message]


def on_the_host() -> None:
    kinds = tf.distribute.ReduceOp
    warnings = list[str]()
    handler = logging.Handler("WARNING")
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("ipufeed").addHandler(handler)
    tf.get_logger().addHandler(handler)
    for dtype in ("float32", "float16", "int32", "int64", "bool", "uint8", "float64"):
        value = np.array([INDEX, 1 + INDEX, 0]).astype(dtype)
        say(f"gather {dtype}", host.allgather(value).numpy().tolist())
    say("warnings", warnings)
    value = np.float32([1.5, np.nan, np.inf]) * (INDEX + 1)
    say("broadcast", [str(each) for each in host.broadcast(value, 1).numpy()])
    say("sum", host.allreduce(np.float32([INDEX + 1, 0.5])).numpy().tolist())
    say("mean", host.allreduce(np.float32([INDEX, 2]), kinds.MEAN).numpy().tolist())
    rows = tf.constant([[INDEX, 4.0]])
    say("horovod's average", horovod.allreduce(rows).numpy().tolist())
    doubled = horovod.allreduce(rows, horovod.Sum, 2.0, 0.5)
    say("horovod's sum", doubled.numpy().tolist())
    say("horovod's rows", horovod.allgather(rows).numpy().tolist())
    say("horovod's broadcast", horovod.broadcast(rows, 1).numpy().tolist())
    slices = tf.IndexedSlices(rows, tf.constant([INDEX]), tf.constant([5, 2]))
    reduced = horovod.allreduce(slices)
    say("horovod's slices", tf.convert_to_tensor(reduced).numpy()[:3].tolist())
    empty = tf.zeros([0, 3])
    results = [host.allgather(empty), host.allreduce(empty), host.broadcast(empty, 1)]
    say("empty", [each.shape.as_list() for each in results])
    unlike = [tf.ones([INDEX, 2]), tf.ones([1] * 14 + [INDEX + 1])]
    unlike.append(tf.ones([2], ("float32", "float64")[INDEX]))
    say("unlike", [error_of(host.allgather, each) for each in unlike])
    say("after unlike", host.allreduce(np.float32([1])).numpy().tolist())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        gathered = host.allgather(tf.constant([INDEX + 5]))
        say("in a graph", session.run(gathered).tolist())
        x = tf.compat.v1.placeholder(tf.float32)
        mean = horovod.allreduce(x)
        say("of unknown rank", session.run(mean, {x: [[INDEX, 4.0]]}).tolist())


def of_one_run() -> None:
    """Collectives of one run of a session, of which one is not fetched.

    In one process the input of the first comes late, in the other that of the last.
    """
    v1 = tf.compat.v1

    def late(x: Any, seconds: float) -> Any:
        def wait(value: Any) -> Any:
            time.sleep(seconds)
            return value

        return v1.py_func(wait, [x], tf.float32) if seconds else x

    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [])
        # Before all others by its number, and behind the last sum by what it needs.
        needs = tf.identity(x)
        first = horovod.allreduce(needs, horovod.Sum)
        inputs = [late(x, 0.3 * (index == 3 * INDEX)) for index in range(4)]
        for each in inputs:
            each.set_shape([])
        sums = [
            horovod.allreduce(each * 10**i, horovod.Sum)
            for i, each in enumerate(inputs)
        ]
        needs.op._add_control_input(sums[3].op)
        horovod.allreduce(v1.placeholder(tf.float32, []))
        rows = host.allgather(tf.stack([sums[3], sums[0]]))
        fetched = [rows, [first, *sums], host.broadcast(x, 1)]
        said = [session.run(fetched, {x: 1.0 + INDEX + run}) for run in range(3)]
        said.append(session.run([sums[2], rows, sums[0]], {x: 1.0})[::2])
        say("of one run", tf.nest.map_structure(lambda each: each.tolist(), said))


def in_version_1(strategy: Any) -> None:
    """Two variables, initialised in one run of a session, and a step of training."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), strategy.scope(), v1.Session() as session:
        start = float(1 + 76 * INDEX)

        def step(x: Any) -> Any:
            a = v1.get_variable("a", initializer=[start, 2.0], use_resource=True)
            b = v1.get_variable("b", initializer=3.0 * start, use_resource=True)
            loss = tf.reduce_sum(a * x) + b
            optimizer = v1.train.GradientDescentOptimizer(0.5)
            with tf.control_dependencies([optimizer.minimize(loss)]):
                return tf.identity(loss)

        x = v1.placeholder(tf.float32, [2])
        result = strategy.run(lambda: ipu.ipu_compiler.compile(step, [x]))
        session.run(v1.global_variables_initializer())
        variables = v1.trainable_variables()
        say("version 1, at first", [each.tolist() for each in session.run(variables)])
        session.run(result, {x: [1.0, 2.0]})
        say("version 1, after", [each.tolist() for each in session.run(variables)])


def train(strategy: Any, optimizer: Any) -> list[float]:
    """Weights after three steps, on each process's rows of the data."""
    data = np.arange(8, dtype=np.float32).reshape(4, 2)
    rows = data[INDEX::COUNT] if COUNT > 1 else data
    with strategy.scope():
        start = 1.0 if INDEX == 0 else 77.0
        weights = tf.Variable([start, 2.0 * start])

        @tf.function(jit_compile=True)
        def steps() -> Any:
            made = optimizer()
            for _ in range(3):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(rows, weights)))
                (gradient,) = tape.gradient(loss, [weights])
                made.apply_gradients([(gradient, weights)])
            return weights + 0.0

        first = weights.numpy().tolist()
        strategy.run(steps)
        return [first, weights.numpy().tolist()]


def fit(strategy: Any, ipus: int) -> list[Any]:
    """A Keras model's weights before and after, its losses, and its first prediction."""
    import keras

    rows = keras_rows().reshape(4, COUNT, -1, 3)[:, INDEX].reshape(-1, 3)
    keras.utils.set_random_seed(7 + INDEX)  # process 0's weights are those of all
    with strategy.scope():
        layers = [keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((2,)), *layers])
        model.compile(keras.optimizers.SGD(0.1, 0.9), "mse", steps_per_execution=2)
    before = [each.tolist() for each in model.get_weights()]
    x, y = rows[:, :2], rows[:, 2:]
    history = model.fit(x, y, 8 // COUNT // ipus, epochs=2, verbose=0, shuffle=False)
    after = [each.tolist() for each in model.get_weights()]
    return [before, after, history.history["loss"]]


def fit_accumulated(strategy: Any, ipus: int, pipelined: bool) -> list[Any]:
    """As `fit`, with four mini-batches for an update, and a regularizer."""
    import keras

    replicas = 1 if pipelined else ipus
    rows = keras_rows().reshape(-1, COUNT, 8 * replicas, 3)[:, INDEX].reshape(-1, 3)
    keras.utils.set_random_seed(7 + INDEX)
    with strategy.scope():
        first = keras.layers.Dense(4, activation="tanh", kernel_regularizer="l2")
        model = keras.Sequential([keras.Input((2,)), first, keras.layers.Dense(1)])
        options = {
            "gradient_accumulation_steps_per_replica": 4,
            "gradient_accumulation_reduction_method": "mean",
        }
        if pipelined:
            model.set_pipeline_stage_assignment([0, 1])
            model.set_pipelining_options(**options)
        else:
            model.set_gradient_accumulation_options(**options)
        model.compile(keras.optimizers.SGD(0.1, 0.9), "mse", steps_per_execution=4)
    before = [each.tolist() for each in model.get_weights()]
    x, y = rows[:, :2], rows[:, 2:]
    history = model.fit(x, y, 2, epochs=2, verbose=0, shuffle=False)
    after = [each.tolist() for each in model.get_weights()]
    return [before, after, history.history["loss"]]


def reduced_on_read(strategy: Any) -> None:
    """Variables that are reduced when they are read, and a metric."""
    import keras

    kinds, on_read = tf.VariableAggregation, tf.VariableSynchronization.ON_READ
    with strategy.scope():
        of = {
            kind.name: tf.Variable(
                [10.0, 1.0], synchronization=on_read, aggregation=kind
            )
            for kind in (kinds.SUM, kinds.MEAN, kinds.ONLY_FIRST_REPLICA)
        }
        count = tf.Variable(
            [3], False, synchronization=on_read, aggregation=kinds.SUM, dtype=tf.int32
        )
        metric = keras.metrics.Mean()

        @tf.function(jit_compile=True)
        def step(x: Any) -> Any:
            metric.update_state(x)
            for each in of.values():
                each.assign_add([x, 1.0])
            return [each.read_value() for each in of.values()]

        own = strategy.run(step, [tf.constant(1.0 + INDEX)])
        say("in the program", [each.numpy().tolist() for each in own])
        say("in the scope", {name: each.numpy().tolist() for name, each in of.items()})
    say("outside", {name: (each + 0.0).numpy().tolist() for name, each in of.items()})
    say("count", [int(count[0]), np.asarray(count).tolist()])
    say("metric", float(metric.result()))
    for each in (*of.values(), count):
        each.assign([8] if each is count else [8.0, 6.0])
    say("assigned", [each.numpy().tolist() for each in (*of.values(), count)])
    metric.reset_state()
    say("reset", float(metric.result()))


def alone(strategy: Any, keras: Any, folder: str) -> None:
    """The first process evaluates and saves a model, the others go on."""
    x, y = np.split(keras_rows(), [2], 1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.1, 0.9)
        model.compile(optimizer, "mse", metrics=["mae"], steps_per_execution=2)
    model.fit(x, y, 4, verbose=0)
    after = [each.tolist() for each in model.get_weights()]
    name = keras.__name__
    if INDEX == 0:
        losses = model.evaluate(x, y, 4, verbose=0, return_dict=True)
        say(f"{name} evaluates", losses["mae"])
        found = model.predict(x, 4, verbose=0)
        # A metric is that of the last replica, which has each second batch of two.
        ipus = int(sys.argv[1])
        errors = np.abs(found - y).reshape(8, 4)[ipus - 1 :: ipus]
        say(f"{name} predicts", float(np.mean(errors)))
        with strategy.scope():
            model.save(f"{folder}/{name}.keras")
        model.save(f"{folder}/{name}.h5")
        model.save_weights(f"{folder}/{name}.weights.h5")
        keras.models.save_model(model, f"{folder}/{name}-by-function.keras")
        if name == "keras":
            model.export(f"{folder}/{name}", verbose=False)
        else:
            model.save(f"{folder}/{name}")
        model.set_weights([0.0 * each for each in model.get_weights()])
        model.load_weights(f"{folder}/{name}.weights.h5")
        loaded = [each.tolist() for each in model.get_weights()]
        say(f"{name} loads", loaded == after)
    say(f"after {name}", host.allreduce(np.float32([INDEX, 1.0])).numpy().tolist())


def keras_rows() -> Any:
    """Four batches of eight, each with two inputs and a target."""
    return np.random.default_rng(0).normal(size=[32, 3]).astype(np.float32)


def main() -> None:
    print_stacks_on_signal()
    strategy = PopDistStrategy()
    config = ipu.IPUConfig()
    config.auto_select_ipus = int(sys.argv[1])
    strategy.update_ipu_config(config)
    config.configure_ipu_system()
    say("replicas", strategy.num_replicas_in_sync)
    if "leaves" in sys.argv:
        say("before", host.allreduce(np.float32(1.0)).numpy().tolist())
        if INDEX > 0:
            os._exit(3)
        try:
            host.allreduce(np.float32(1.0))
        except tf.errors.OpError as error:
            say("heard", error.message)
        os._exit(0)
    if "alone" in sys.argv:
        reduced_on_read(strategy)
        for name in ("keras", "tf_keras"):
            if importlib.util.find_spec(name):
                alone(strategy, importlib.import_module(name), sys.argv[-1])
        return
    on_the_host()
    of_one_run()
    in_version_1(strategy)

    def sgd() -> Any:
        return tf.compat.v1.train.GradientDescentOptimizer(0.01)

    say("PopDist", train(strategy, sgd))
    say("Keras", fit(strategy, int(sys.argv[1])))
    ipus = int(sys.argv[1])
    say("accumulated", fit_accumulated(strategy, ipus, pipelined=False))
    if ipus == 2:
        say("pipelined", fit_accumulated(strategy, ipus, pipelined=True))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    older = IPUMultiWorkerStrategyV1(resolver)
    config = ipu.IPUConfig()  # which names no processes, as with the original's
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    say("MultiWorker", train(older, sgd))
    kinds = tf.distribute.ReduceOp
    found = strategy.reduce(kinds.SUM, tf.constant(INDEX + 1.0), axis=None)
    say("reduce", float(found))


if __name__ == "__main__":
    main()
