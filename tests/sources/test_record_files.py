"""tfrecord(): records, order, shards, names of stages, and damage found beforehand.

The last tests hold what docs/sources.md says that TensorFlow does without the check.
"""

import gzip

import pytest
import tensorflow as tf
from helpers import run_python
from sources.records import DAMAGED, GOOD, RECORDS, header, record

from ipufeed.errors import DamagedFileError, SourceError
from ipufeed.sources import tfrecord


@pytest.fixture
def files(tmp_path):
    """Three files of two, three and four records; each record says where it is from."""
    for number, records in enumerate((2, 3, 4)):
        data = b"".join(record(b"%d.%d" % (number, k)) for k in range(records))
        (tmp_path / f"{number}.tfrecord").write_bytes(data)
    return tmp_path


def values(dataset):
    return [value.decode() for value in dataset.as_numpy_iterator()]


def stages(dataset):
    """The names that the user's stages have in the serialised pipeline."""
    graph = tf.compat.v1.GraphDef.FromString(dataset._as_serialized_graph().numpy())
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    names = set()
    for node in nodes:
        metadata = tf.compat.v1.AttrValue(s=node.attr["metadata"].s).s
        if metadata:
            names.add(metadata.split(b"\n", 1)[1][1:].decode())
    return names


def test_all_records_come_in_an_order_that_is_always_the_same(files):
    """Alternately from the files, or one file after the other."""
    in_turns = tfrecord(str(files / "*.tfrecord"))
    one_by_one = tfrecord(str(files / "*.tfrecord"), parallel=1)

    assert " ".join(values(one_by_one)) == "0.0 0.1 1.0 1.1 1.2 2.0 2.1 2.2 2.3"
    assert values(in_turns) == values(in_turns)
    assert sorted(values(in_turns)) == values(one_by_one)
    assert in_turns.element_spec == tf.TensorSpec([], tf.string)


def test_a_checked_dataset_knows_its_cardinality(files):
    """The check has counted; without it the number is unknown."""
    assert int(tfrecord(str(files / "*")).cardinality()) == 9
    assert int(tfrecord(str(files / "*"), check=False).cardinality()) == -2


def test_shards_are_apart_and_complete(files):
    """Each file is in one shard, whatever the number of shards."""
    pattern = str(files / "*.tfrecord")
    for count in (1, 2, 3):
        shards = [tfrecord(pattern, shard=(count, k)) for k in range(count)]
        together = [value for shard in shards for value in values(shard)]

        assert sorted(together) == sorted(values(tfrecord(pattern)))
    with pytest.raises(
        SourceError, match=r"4 shards, and there are only 3 files.*shard"
    ):
        tfrecord(pattern, shard=(4, 0))


def test_stages_have_names(files):
    """Reports show `files` and `read`."""
    assert {"files", "read"} <= stages(tfrecord(str(files / "*")))


def test_compressed_files_are_read(tmp_path):
    """GZIP, with the check and without."""
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(GOOD))
    for check in (True, False):
        dataset = tfrecord(path, compression="GZIP", check=check)

        assert len(values(dataset)) == RECORDS


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_found_before_anything_is_read(files, name):
    """One damaged file among good ones is named at the call, and nothing crashes."""
    (files / "1b.tfrecord").write_bytes(DAMAGED[name][0])

    with pytest.raises(DamagedFileError, match=r"1b\.tfrecord, record \d \(from 0\)"):
        tfrecord(str(files / "*.tfrecord"))


def test_a_file_that_changes_after_the_check_is_an_error(files):
    """Fewer records than were counted end the dataset with an error."""
    dataset = tfrecord(str(files / "*.tfrecord"))
    path = files / "2.tfrecord"
    path.write_bytes(path.read_bytes()[:-13])  # the last record's header is cut

    with pytest.raises(tf.errors.OpError, match=r"truncated|expected to contain 9"):
        values(dataset)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"files": []}, SourceError, "at least one TFRecord file"),
        ({"files": "gone.tfrecord"}, SourceError, "gone.tfrecord is not there"),
        ({"files": "gone*.tfrecord"}, SourceError, "no file matches the pattern gone"),
        ({"files": "gs://bucket/a"}, SourceError, "must be a local file"),
        ({"files": 7}, TypeError, "must be a path, a pattern or a list"),
        ({"files": [7]}, TypeError, "must hold paths, and one is a int"),
        ({"shard": (2, 2)}, ValueError, r"0 <= index < count, got \(2, 2\)"),
        ({"shard": 2}, TypeError, "pair"),
        ({"parallel": 0}, ValueError, r"`parallel` must be in \[1, 1024\].*got 0"),
        ({"parallel": "all"}, TypeError, "`parallel` must be an int or None"),
        ({"compression": "LZ4"}, ValueError, "'GZIP', 'ZLIB' or None"),
    ],
)
def test_bad_arguments_are_named(files, arguments, error, words):
    """What must be what, and what it was."""
    arguments = {"files": str(files / "*.tfrecord"), **arguments}

    with pytest.raises(error, match=words):
        tfrecord(**arguments)


def test_a_file_that_is_named_twice_is_refused(files):
    """Its records would come twice, which repeat() says better."""
    path = str(files / "1.tfrecord")

    with pytest.raises(SourceError, match=r"1\.tfrecord is named twice"):
        tfrecord([path, path])


def test_tensorflow_loses_records_of_truncated_headers(tmp_path):
    """The loss that the check is for: no error at all."""
    for name in ("one byte of a header", "eleven bytes of a header"):
        path = tmp_path / "a"
        path.write_bytes(DAMAGED[name][0])

        assert len(values(tfrecord(path, check=False))) == RECORDS


def test_tensorflow_takes_half_a_gzip_file_for_a_whole_one(tmp_path):
    """A compressed file that breaks off between records ends without an error."""
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(GOOD)[:-8])

    assert len(values(tfrecord(path, check=False, compression="GZIP"))) == RECORDS


@pytest.mark.process
def test_tensorflow_crashes_on_an_absurd_length(tmp_path):
    """The crash that the check is for; in a process of its own."""
    path = tmp_path / "a"
    path.write_bytes(GOOD + header(1 << 62) + b"x" * 99)
    done = run_python(
        f"import tensorflow as tf\nlist(tf.data.TFRecordDataset({str(path)!r}))"
    )

    assert done.returncode < 0, done.stderr
