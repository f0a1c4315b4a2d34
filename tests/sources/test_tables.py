"""parquet() and arrow_ipc(): the same promises, held for both."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from helpers import run_python
from sources.test_record_files import stages

from ipufeed import sources
from ipufeed.errors import DamagedFileError, SourceError

ROWS, CHUNK = 1000, 90  # 12 chunks, the last one shorter


def table(first=0, rows=ROWS):
    numbers = np.arange(first, first + rows)
    return pa.table(
        {
            "number": numbers,
            "half": (numbers / 2).astype(np.float32),
            "even": numbers % 2 == 0,
            "text": [f"row {number}" for number in numbers],
            "pair": pa.FixedSizeListArray.from_arrays(
                pa.array(np.repeat(numbers, 2).astype(np.int32)), 2
            ),
        }
    )


def write_parquet(data, path):
    pq.write_table(data, path, row_group_size=CHUNK)


def write_ipc(data, path, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, data.schema, options=options) as writer,
    ):
        writer.write_table(data, max_chunksize=CHUNK)


def write_compressed_ipc(data, path):
    write_ipc(data, path, "zstd")


KINDS = {
    "parquet": (sources.parquet, write_parquet),
    "ipc": (sources.arrow_ipc, write_ipc),
    "compressed ipc": (sources.arrow_ipc, write_compressed_ipc),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def open_(kind, tmp_path):
    """Opens two files of a thousand rows each, with arguments for the source."""
    source, write = kind
    write(table(), tmp_path / "a")
    write(table(ROWS), tmp_path / "b")
    return lambda **arguments: source(str(tmp_path / "[ab]"), **arguments)


def rows(dataset):
    elements = list(dataset.as_numpy_iterator())
    return {key: np.concatenate([e[key] for e in elements]) for key in elements[0]}


def test_all_rows_come_once_and_in_order(open_):
    """Batches run across chunks and files; every column has its values and shape."""
    dataset = open_(batch_size=64)
    found = rows(dataset)

    assert int(dataset.cardinality()) == 2 * ROWS // 64 + 1
    np.testing.assert_array_equal(found["number"], np.arange(2 * ROWS))
    np.testing.assert_array_equal(found["half"], np.arange(2 * ROWS) / np.float32(2))
    np.testing.assert_array_equal(found["even"], np.arange(2 * ROWS) % 2 == 0)
    assert found["text"].tolist() == [f"row {n}".encode() for n in range(2 * ROWS)]
    np.testing.assert_array_equal(
        found["pair"], np.arange(2 * ROWS).repeat(2).reshape(-1, 2)
    )


def test_the_structure_is_known_beforehand(open_):
    """element_spec has names, types and inner shapes; rows where batches are equal."""
    spec = open_(batch_size=64, drop_remainder=True).element_spec

    assert spec == {
        "number": tf.TensorSpec([64], tf.int64),
        "half": tf.TensorSpec([64], tf.float32),
        "even": tf.TensorSpec([64], tf.bool),
        "text": tf.TensorSpec([64], tf.string),
        "pair": tf.TensorSpec([64, 2], tf.int32),
    }
    assert open_().element_spec["pair"] == tf.TensorSpec([None, 2], tf.int32)


def test_columns_come_in_the_requested_order(open_):
    """Projection: what is not named does not come."""
    element = next(open_(columns=["pair", "number"]).as_numpy_iterator())

    assert list(element) == ["pair", "number"]


def test_without_a_batch_size_an_element_is_a_chunk(open_):
    """90 rows, as they were written."""
    sizes = [len(e["number"]) for e in open_(batch_size=None).as_numpy_iterator()]

    assert sizes == 2 * [*[CHUNK] * 11, 10]


def test_shards_are_apart_and_complete(open_):
    """Chunks are dealt out one by one."""
    shards = [rows(open_(shard=(5, k), columns=["number"])) for k in range(5)]
    together = np.concatenate([shard["number"] for shard in shards])

    np.testing.assert_array_equal(np.sort(together), np.arange(2 * ROWS))
    with pytest.raises(SourceError, match=r"25 shards, and there are only 24.*smaller"):
        open_(shard=(25, 0))


def test_stages_have_names(open_):
    """Reports show `chunks`, `read` and `columns`; TensorFlow has no name for a rebatch."""
    assert {"chunks", "read", "columns"} <= stages(open_())


def test_nulls_fail_with_their_place_or_go(kind, tmp_path):
    """By default an error that says where; else dropped or zero."""
    source, write = kind
    data = pa.table({"a": pa.array([1, 2, None, 4])})
    write(data, tmp_path / "a")

    with pytest.raises(
        (SourceError, tf.errors.InvalidArgumentError),
        match=r"a, (row group|record batch) 0: column `a` has 1 rows with nulls",
    ):
        list(source(tmp_path / "a"))
    assert rows(source(tmp_path / "a", nulls="drop"))["a"].tolist() == [1, 2, 4]
    assert rows(source(tmp_path / "a", nulls="zero"))["a"].tolist() == [1, 2, 0, 4]


def test_an_empty_chunk_gives_no_row(kind, tmp_path):
    """A file whose only chunk has no rows is read as what it is, next to others."""
    source, write = kind
    write(table(rows=10), tmp_path / "a")
    with pa.OSFile(str(tmp_path / "b"), "wb") as file:
        if source is sources.parquet:
            with pq.ParquetWriter(file, table().schema) as writer:
                writer.write_table(table().slice(0, 0))
        else:
            with pa.ipc.new_file(file, table().schema) as writer:
                writer.write_batch(pa.RecordBatch.from_pylist([], table().schema))
    found = rows(source([tmp_path / "b", tmp_path / "a"], batch_size=4))

    assert found["text"].tolist() == [f"row {n}".encode() for n in range(10)]


def test_files_must_agree(kind, tmp_path):
    """Two files of different columns are refused, with both and the remedy."""
    source, write = kind
    write(pa.table({"a": [1], "b": [1]}), tmp_path / "x")
    write(pa.table({"a": [1.0], "b": [1]}), tmp_path / "y")

    with pytest.raises(SourceError, match=r"y has column `a` of type double.*int64"):
        source(str(tmp_path / "*"))
    assert rows(source(str(tmp_path / "*"), columns=["b"]))["b"].tolist() == [1, 1]


def test_a_damaged_file_is_named(kind, tmp_path):
    """Text, and a file whose end is missing."""
    source, write = kind
    path = tmp_path / "a"
    path.write_text("this is a text\n" * 99)
    with pytest.raises(
        DamagedFileError, match=r"a is not a whole (Parquet|Arrow IPC) file"
    ):
        source(path)
    write(table(), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFileError, match="Copy or write it again") as caught:
        source(path)

    assert caught.value.path == str(path)


def test_a_damaged_chunk_is_named_when_it_is_read(tmp_path):
    """The footer is whole and a page is not: the error says in which row group."""
    path = tmp_path / "a.parquet"
    pq.write_table(table(), path, row_group_size=CHUNK, compression="zstd")
    column = pq.read_metadata(path).row_group(2).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + column.total_compressed_size] = bytes(
        column.total_compressed_size
    )
    path.write_bytes(data)

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"a\.parquet, row group 2 cannot be read"
    ):
        list(sources.parquet(path, columns=["number"]))


def test_an_ipc_stream_is_refused_with_the_remedy(tmp_path):
    """A stream has no list of its record batches."""
    with (
        pa.OSFile(str(tmp_path / "a"), "wb") as file,
        pa.ipc.new_stream(file, table().schema) as writer,
    ):
        writer.write_table(table())

    with pytest.raises(SourceError, match=r"is an Arrow IPC stream.*new_file"):
        sources.arrow_ipc(tmp_path / "a")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"batch_size": 0},
            ValueError,
            r"`batch_size` must be in \[1, 2\*\*31\], got 0",
        ),
        ({"batch_size": "a"}, TypeError, "`batch_size` must be an int or None"),
        ({"nulls": "keep"}, ValueError, "'error', 'drop' or 'zero', got 'keep'"),
        ({"nulls": np.ones(2)}, ValueError, "'error', 'drop' or 'zero', got array"),
        ({"columns": 5}, TypeError, "`columns` must be a list of names or None, got 5"),
        ({"parallel": -3}, ValueError, "`parallel`"),
        (
            {"columns": ["gone"]},
            SourceError,
            "has no column `gone`. It has: number, half",
        ),
    ],
)
def test_bad_arguments_are_named(open_, arguments, error, words):
    """What must be what, and what it was."""
    with pytest.raises(error, match=words):
        open_(**arguments)


def test_decoded_numbers_reach_tensorflow_without_a_copy(tmp_path, monkeypatch):
    """The tensor's memory is the buffer that Parquet was decoded into."""
    pq.write_table(table(), tmp_path / "a")
    seen = []
    from ipufeed.sources import tables

    def spying(*arguments):
        arrays = to_arrays(*arguments)
        seen.extend(array.__array_interface__["data"][0] for array in arrays)
        return arrays

    to_arrays = tables.to_arrays
    monkeypatch.setattr(tables, "to_arrays", spying)
    dataset = sources.parquet(tmp_path / "a", columns=["number"], batch_size=None)
    (element,) = list(dataset)

    assert [element["number"]._numpy().__array_interface__["data"][0]] == seen


@pytest.mark.process
def test_pyarrow_and_tensorflow_share_a_process_in_either_order(tmp_path):
    """Both carry libraries of the same names; whichever comes first, Parquet is read."""
    path = str(tmp_path / "a")
    pq.write_table(table(), path, compression="zstd")
    for first, second in (
        ("tensorflow", "pyarrow.parquet"),
        ("pyarrow.parquet", "tensorflow"),
    ):
        done = run_python(
            f"import {first}, {second}\nimport ipufeed.sources\n"
            f"print(len(list(ipufeed.sources.parquet({path!r}, batch_size=100))))"
        )

        assert done.stdout == "10\n", done.stderr
