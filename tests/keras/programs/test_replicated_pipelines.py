"""Copies of a pipelined model: each trains, and each has its own metrics."""

import keras
import keras_models as models
import numpy as np
import pytest

from ipufeed.device.program.strategy import IPUStrategy

layers = keras.layers


@pytest.fixture(scope="module")
def piped():
    """A Sequential in two stages, built and compiled."""
    models.configure(2)
    with IPUStrategy().scope():
        model = models.compiled(models.dense, steps_per_execution=8)
    model.set_pipeline_stage_assignment([0, 1])
    return model


def test_pipelines_are_replicated(piped):
    """Two copies on four IPUs; too few IPUs are refused."""
    data = models.dataset(4)
    one = piped.evaluate(data, verbose=0)
    models.configure(4)
    try:
        piped.set_replication_options("mean")
        two = piped.evaluate(data, verbose=0)
        models.configure(1)
        piped.set_replication_options("none")
        with pytest.raises(ValueError, match=r"has 1 IPUs .* requires a multiple of 2"):
            piped.evaluate(data, verbose=0)
    finally:
        models.configure(2)

    assert two == pytest.approx(one, rel=1e-4)


def test_metrics_of_replicas_continue_in_the_next_execution(piped):
    """Each with its own totals: three executions give what one gives."""
    data = models.dataset(2, 48)
    models.configure(4)
    try:
        piped.set_replication_options("list")
        found = []
        for execution in (12, 4):
            piped.steps_per_execution = execution
            found.append(piped.evaluate(data, verbose=0))
    finally:
        piped.steps_per_execution = 8
        piped.set_replication_options("none")
        models.configure(2)

    assert np.ptp(found[0][0]) > 0.001  # the replicas' losses differ
    assert np.allclose(*found, rtol=1e-5)
