"""What is printed of an error: the sentence where it is ours, all of it where it is not."""

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from ipufeed import sources
from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.report.failure import sentence_of
from ipufeed.benchmark.report.summary import summarize


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """The path of a Parquet file whose footer is whole, and the result of reading it."""
    path = tmp_path_factory.mktemp("damaged") / "x.parquet"
    pq.write_table(pa.table({"x": list(range(1000))}), path)
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36  # the header of the first page
    path.write_bytes(data)
    dataset = sources.parquet(str(path))
    return path, measure(dataset, Settings(elements=1, epochs=1))


def test_of_a_damaged_chunk_the_sentence_alone_is_printed(damaged):
    """File and row group, once, and the remedy; no line of Python."""
    path, result = damaged
    output = " ".join(summarize(result).split())

    assert f"{path}, row group 0 cannot be read: " in output
    assert output.endswith(" Copy or write the file again.")
    assert output.count("row group 0") == 1
    assert "Traceback" not in output


def test_the_result_keeps_the_error_of_tensorflow(damaged):
    """The trace of a bug in ipufeed names the place; that of pyarrow is not in it."""
    message = damaged[1].error["message"]

    assert "Traceback" in message
    assert "tables.py" in message
    assert "core.py" not in message


def test_of_a_users_function_the_lines_are_printed_that_are_theirs(damaged):
    """Which one failed, and the whole message, once; nothing of TensorFlow's."""

    def fail(x):
        raise ValueError("no such label\nsecond line")

    dataset = tf.data.Dataset.range(3).map(
        lambda x: tf.py_function(fail, [x], tf.int64), name="label"
    )
    result = measure(dataset, Settings(elements=1, epochs=1))

    output = summarize(result)
    assert "in fail" in output
    assert 'raise ValueError("no such label' in output
    assert output.count("ValueError: no such label\n  second line") == 1
    assert "script_ops.py" not in output
    assert "script_ops.py" in result.error["message"]


@pytest.mark.parametrize(
    "message", ["", "corrupted record at 3", "SourceError: x", "Traceback (most"]
)
def test_any_other_message_is_printed_as_it_is(message, damaged):
    """Whatever words are in it."""
    error = {**damaged[1].error, "message": message}

    assert sentence_of(error) == message
    assert dataclasses.replace(damaged[1], error=error).error["message"] == message
