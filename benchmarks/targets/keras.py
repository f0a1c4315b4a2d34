"""What a step of `fit` costs on the IPU, against stock Keras: CPU time of all threads.

The MLP has 20-64-64-10 units and batches of 32; both compile, with the same
steps_per_execution, and are run alternately.
"""

import operator
import time
from typing import Any

from benchmarks.targets import Row, comparison, row

# Steps per execution, steps of a fit, and at most this much of stock Keras's CPU time.
REACHES = ((1, 400, 1.1), (100, 4000, 0.30), (1000, 8000, 0.20))
STEP_S, PERIOD_S = 2e-3, 4e-3  # of a fit that waits for its data
STARVED = "Keras fit, starved share of InputBound: points off --through device"
EVERY_STEP = 0.45  # with callbacks of every step, at 100
CAST = "labels of int64"


def rows(quick: bool) -> list[Row]:
    """Measures all rows; TensorFlow runs in this process."""
    import ipufeed as ipu

    strategy = ipu.IPUStrategy()
    found = []
    for per_execution, steps, reach in REACHES:
        models = {"stock": make(per_execution)}
        with strategy.scope():
            models["ours"] = make(per_execution)
            if per_execution == 100:
                models["every step"] = make(per_execution)
                models["every step"].set_asynchronous_callbacks(True)
                models[CAST] = make(per_execution)
        times = measured(models, per_execution, steps // (4 if quick else 1), quick)
        found += [
            comparison(
                f"Keras fit, {per_execution} steps per execution: CPU against stock Keras",
                *(
                    "at most",
                    reach,
                    "x",
                    operator.truediv,
                    times["ours"],
                    times["stock"],
                ),
            ),
            row("    a step on the IPU, CPU", "", 0, "us", times["ours"]),
            row("    a step of stock Keras, CPU", "", 0, "us", times["stock"]),
        ]
        if "every step" in times:
            found.append(
                comparison(
                    "Keras fit, 100 steps per execution, callbacks of every step: CPU",
                    *("at most", EVERY_STEP, "x", operator.truediv),
                    *(times["every step"], times["stock"]),
                )
            )
            found.append(
                comparison(
                    "    labels of int64, which are cast to int32, against those of int32",
                    *("at most", 1.2, "x", operator.truediv),
                    *(times[CAST], times["ours"]),
                )
            )
    return [*found, starved_share(1 if quick else 5)]


def starved_share(repeats: int) -> Row:
    """Compares the starved share of a fit with that of `--through device`: 2 ms of 4 ms."""
    import keras
    import tensorflow as tf

    import ipufeed as ipu
    from benchmarks.targets.device import sleeping
    from ipufeed.benchmark import Settings
    from ipufeed.benchmark.device.measure import measure_through
    from ipufeed.benchmark.device.settings import DeviceSettings
    from ipufeed.device.program.steps import step

    class Slow(keras.Model):
        def call(self, x: Any) -> Any:
            return x

        def train_step(self, data: Any) -> dict[str, Any]:
            times = tf.cast(step(STEP_S), tf.float32)
            return {"loss": tf.reduce_sum(data[0]) + 0.0 * times[0]}

    data = sleeping(PERIOD_S)
    device = DeviceSettings(step_seconds=STEP_S)
    with ipu.IPUStrategy().scope():
        model = Slow()
        model.compile(loss="mse", steps_per_execution=100)
    off = []
    bound = ipu.keras.InputBound()
    pairs = data.map(lambda x: (x, x[:1]))
    for _ in range(repeats):
        model.fit(pairs, steps_per_epoch=500, epochs=2, verbose=0, callbacks=[bound])
        through = measure_through(data, Settings(seconds=2.0), device=device)
        share = through.to_dict()["device"]["starved_time_share"]
        off.append(100 * abs(bound.starved[-1] - share))
    return row(STARVED, "at most", 5, "points", off)


def make(per_execution: int) -> Any:
    """Returns the MLP."""
    import keras

    layers = [keras.layers.Dense(64, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((20,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.Adam(0.001),
        loss,
        metrics=["accuracy"],
        steps_per_execution=per_execution,
        jit_compile=True,
    )
    return model


def measured(
    models: dict[str, Any], per_execution: int, steps: int, quick: bool
) -> dict[str, list[float]]:
    """Returns microseconds of CPU for a step of each model, run alternately."""
    import keras
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    x = random.normal(size=[4096, 20]).astype("float32")
    y = random.integers(0, 10, 4096).astype("int32")

    def data_of(y: Any) -> Any:
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32, drop_remainder=True)
        return data.cache().repeat().prefetch(tf.data.AUTOTUNE)

    data, cast = data_of(y), data_of(y.astype("int64"))
    steps = max(steps // per_execution, 1) * per_execution
    times: dict[str, list[float]] = {name: [] for name in models}

    def fit(name: str, count: int) -> float:
        callbacks = [
            keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None)
        ]
        begin = time.process_time()
        models[name].fit(
            cast if name == CAST else data,
            steps_per_epoch=count,
            verbose=0,
            shuffle=False,
            callbacks=callbacks,
        )
        return (time.process_time() - begin) / count * 1e6

    for name in models:
        fit(name, per_execution)  # compiles
    for _ in range(3 if quick else 7):
        for name in models:
            times[name].append(fit(name, steps))
    return times
