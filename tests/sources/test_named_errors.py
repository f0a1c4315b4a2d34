"""An error of reading names its file, and the datasets that read are otherwise the same."""

import pytest
import tensorflow as tf

from ipufeed.sources import tfrecord
from ipufeed.sources.named_errors import name_errors

RECORDS = 6


@pytest.fixture
def files(tmp_path):
    """Three files; a bit in the data of the second one's fourth record is flipped."""
    paths = [tmp_path / f"{name}.tfrecord" for name in "abc"]
    for path in paths:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for number in range(RECORDS):
                writer.write(f"{path.stem}{number}".encode())
    data = bytearray(paths[1].read_bytes())
    data[3 * (2 + 16) + 12] ^= 1
    paths[1].write_bytes(data)
    return [str(path) for path in paths]


def drain(dataset):
    return [bytes(value).decode() for value in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("parallel", [None, 1, 2])
@pytest.mark.parametrize("several", [True, False], ids=["several", "one"])
def test_a_flipped_bit_is_an_error_with_its_file(files, parallel, several):
    """The headers are whole, so that no check has found it."""
    dataset = tfrecord(files if several else files[1], parallel=parallel)

    with pytest.raises(tf.errors.DataLossError) as failed:
        drain(dataset)

    assert f"{files[1]}: corrupted record at 66" in str(failed.value)


def test_the_other_files_are_read_on(files):
    """ignore_errors leaves out the rest of the one that is damaged."""
    found = drain(tfrecord(files, parallel=1, check=False).ignore_errors())

    assert [each for each in found if each[0] == "c"] == [
        f"c{k}" for k in range(RECORDS)
    ]


@pytest.mark.parametrize("parallel", [None, 1])
def test_files_are_still_sharded_by_file(files, parallel):
    """tf.data finds the reader in the function, and gives each worker files of its own."""
    from tensorflow.python.data.experimental.ops import distribute

    whole = [files[0], files[2]]
    dataset = tfrecord(whole, parallel=parallel)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.FILE
    )
    dataset = dataset.with_options(options)

    shards = [drain(distribute._AutoShardDataset(dataset, 2, k)) for k in range(2)]

    assert shards == [[f"{name}{k}" for k in range(RECORDS)] for name in "ac"]


def test_names_are_one_for_all_elements_or_one_for_each():
    """A scalar and a vector."""
    failing = tf.data.Dataset.range(3).map(lambda x: tf.ensure_shape(tf.range(x), [0]))

    for names, output in [("all", "all: "), (["first", "second", "third"], "second: ")]:
        with pytest.raises(tf.errors.InvalidArgumentError) as failed:
            list(name_errors(failing, tf.constant(names)))
        assert output in str(failed.value)


def test_making_the_dataset_prints_nothing(files, caplog, capfd):
    """AutoGraph would warn of what it cannot convert."""
    with caplog.at_level("WARNING", logger="tensorflow"):
        tfrecord(files, check=False)

    assert caplog.text + capfd.readouterr().err == ""
