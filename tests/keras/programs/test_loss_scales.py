"""LossScaleOptimizer under gradient accumulation, in pipelines and on replicas."""

import contextlib

import keras_models
import numpy as np
import pytest

from ipufeed.device.program.strategy import IPUStrategy

pytestmark = pytest.mark.long

X = keras_models.arrays()[0]
Y = X[:, :1]


# Configurations: the IPUs, replicas, batch size of a replica, and steps of an execution.
CONFIGURATIONS = {
    "host": (1, 1, 32, 1),
    "accumulated": (1, 1, 8, 8),
    "pipelined": (2, 1, 8, 8),
    "replicated": (4, 4, 8, 2),
    "pipelined replicas": (4, 2, 4, 8),
}


def trained(kind, scope, how, y):
    """Trains two epochs with updates from 32 samples."""
    _, replicas, batch, steps = CONFIGURATIONS[how]
    kind.utils.set_random_seed(3)
    with scope:
        model = kind.Sequential(
            [kind.Input((6,)), kind.layers.Dense(8, "relu"), kind.layers.Dense(1)]
        )
        # The gradients of replicas are summed.
        optimizer = kind.mixed_precision.LossScaleOptimizer(
            kind.optimizers.SGD(0.1 / replicas, momentum=0.5),
            initial_scale=64 / replicas,
        )
        model.compile(optimizer, "mse", steps_per_execution=steps)
        if how == "accumulated":
            model.set_gradient_accumulation_options(4, "mean")
        elif how.startswith("pipelined"):
            model.set_pipeline_stage_assignment([0, 1])
            model.set_pipelining_options(
                4, gradient_accumulation_reduction_method="mean"
            )
    model.fit(X, y, batch, epochs=2, verbose=0, shuffle=False)
    scale = getattr(optimizer, "loss_scale", None)  # of tf_keras
    scale = optimizer.dynamic_scale if scale is None else scale
    updates = np.asarray(optimizer.iterations)
    return [*model.get_weights(), np.asarray(scale) * replicas, updates]


@pytest.mark.parametrize("how", [*CONFIGURATIONS][1:])
def test_it_trains_as_with_larger_batches(kind, how):
    """A gradient of one mini-batch that is infinite skips the update on all replicas."""
    y = Y.copy()
    y[3] = 3e38
    want = trained(kind, contextlib.nullcontext(), "host", y)
    keras_models.configure(CONFIGURATIONS[how][0])
    try:
        found = trained(kind, IPUStrategy().scope(), how, y)
    finally:
        keras_models.configure(1)

    assert want[-2] == 64 / 4  # of two updates
    for stock, ours in zip(want, found, strict=True):
        np.testing.assert_allclose(ours, stock, 1e-5, 1e-6)
