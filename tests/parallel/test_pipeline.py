"""A pipeline trains as the unsplit model does, whatever its schedule and its optimizer."""

import logging

import pytest
import tensorflow as tf
from models import Pipelined, assert_equal, unsplit, v1
from replicated import configure

from ipufeed.parallel.schedules import PipelineSchedule

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.02),
    "keras sgd": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9),
    "keras adam": lambda: tf.keras.optimizers.Adam(0.02),
}


@pytest.mark.parametrize(
    ("kind", "layers", "optimizer"),
    [
        (GROUPED, 2, "sgd"),
        (GROUPED, 3, "momentum"),
        (GROUPED, 4, "adam"),
        (INTERLEAVED, 2, "adam"),
        (INTERLEAVED, 3, "sgd"),
        (INTERLEAVED, 4, "momentum"),
        (SEQUENTIAL, 2, "momentum"),
        (SEQUENTIAL, 3, "adam"),
        (SEQUENTIAL, 4, "sgd"),
        (GROUPED, 2, "keras sgd"),
        (INTERLEAVED, 2, "keras adam"),
    ],
)
def test_a_pipeline_trains_as_the_unsplit_model(clean_system, kind, layers, optimizer):
    """Losses of all mini-batches, and weights after three executions in two programs."""
    configure(2 if layers == 2 else 4)
    count = 2 * layers
    model = Pipelined(
        OPTIMIZERS[optimizer], layers, count, pipeline_schedule=kind, repeat_count=3
    )

    assert_equal(model.train(), unsplit(OPTIMIZERS[optimizer], layers, count, 3))


def test_the_program_of_each_ipu_has_a_name_of_its_own(clean_system, caplog):
    """So that nobody is told that one program is compiled again and again."""
    configure(4)
    with caplog.at_level(logging.INFO, logger="ipufeed"):
        Pipelined(OPTIMIZERS["sgd"], 4, 16).train()  # a count of no other test

    for chip in range(4):
        assert caplog.text.count(f"Compiled pipelinechip{chip} in") == 1
