"""When an infeed reads: with the first program that takes from it, and not before."""

import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S
from infeed_programs import reading
from styles import CASES, entered

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler, loops, scopes
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

v1 = tf.compat.v1


def counting(made):
    """A dataset of 0, 1, ... that notes each request."""

    def generate():
        for number in range(300):
            made.append(number)
            yield np.float32(number)

    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.float32)
    )


@pytest.mark.parametrize(("style", "executor"), CASES)
def test_nothing_is_read_before_the_first_program(style, executor):
    """Also while another program runs; then each element arrives once."""
    made = []
    with entered(style, executor) as ready:
        infeed = ready.feed(lambda: counting(made))
        outfeed = IPUOutfeedQueue()
        ready.run(lambda x: x + 1.0, 1.0)  # a program without the queue
        assert made == []

        run = ready.build(lambda: ready.repeat(3, outfeed.enqueue, [], infeed))
        run()
        run()
        assert ready.read(outfeed.dequeue()).tolist() == [0, 1, 2, 3, 4, 5]
        assert infeed.stats().elements == 6


def test_a_table_that_is_initialised_after_the_infeed_is_there():
    """In a session the order of the two initializers does not matter."""
    with tf.Graph().as_default(), v1.Session() as session:
        keys = tf.constant([0, 1, 2], tf.int64)
        values = tf.constant([5.0, 6.0, 7.0])
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, values), -1.0
        )
        infeed = IPUInfeedQueue(tf.data.Dataset.range(3).map(table.lookup))
        outfeed = IPUOutfeedQueue()
        with scopes.ipu_scope("/device:IPU:0"):
            program = compiler.compile(
                lambda: loops.repeat(3, outfeed.enqueue, [], infeed)
            )
        results = outfeed.dequeue()
        session.run(infeed.initializer)
        assert infeed.stats().filled == 0
        session.run(v1.tables_initializer())
        session.run(program)

        assert session.run(results).tolist() == [5.0, 6.0, 7.0]


def test_a_file_that_is_written_after_the_initializer_is_read(tmp_path):
    """The dataset's iterator opens it with the first element."""
    path = tmp_path / "lines.txt"
    dataset = tf.data.TextLineDataset(str(path)).map(
        lambda line: tf.strings.to_number(line, tf.float32)
    )
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    _ = infeed.initializer
    path.write_text("3\n4\n", encoding="utf-8")
    reading(infeed, outfeed)(2)

    assert outfeed.dequeue().numpy().tolist() == [3.0, 4.0]


def test_an_infeed_without_a_program_can_be_deleted():
    """It has read nothing, and starts again from its beginning."""
    made = []
    infeed, outfeed = IPUInfeedQueue(counting(made)), IPUOutfeedQueue()
    for _ in range(3):
        _ = infeed.initializer
        _ = infeed.deleter
    _ = infeed.initializer
    assert made == []
    reading(infeed, outfeed)(2)

    assert outfeed.dequeue().numpy().tolist() == [0.0, 1.0]


def test_read_ahead_begins_before_the_first_program():
    """Once the initializer has run; twice is as once."""
    made = []
    infeed = IPUInfeedQueue(counting(made), prefetch_depth=4)
    outfeed = IPUOutfeedQueue()
    with pytest.raises(tf.errors.FailedPreconditionError, match="Run it first"):
        infeed.read_ahead()
    _ = infeed.initializer
    infeed.read_ahead()
    infeed.read_ahead()
    end = time.monotonic() + DEADLOCK_S
    while infeed.stats().filled < 4:
        assert time.monotonic() < end
        time.sleep(0.01)
    reading(infeed, outfeed)(6)

    assert outfeed.dequeue().numpy().tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("clean_system")
def test_read_ahead_with_synthetic_data_reads_nothing(monkeypatch):
    """There is no feeder, so it needs none."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    IPUConfig().configure_ipu_system()
    made = []
    infeed = IPUInfeedQueue(counting(made))
    _ = infeed.initializer
    infeed.read_ahead()

    assert made == []
