"""Cold runs: which files are found, dropped and checked, and how passes are joined."""

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from helpers import stamps

from ipufeed import sources
from ipufeed.benchmark import Settings
from ipufeed.benchmark.cold import measure as cold
from ipufeed.benchmark.cold import page_cache
from ipufeed.benchmark.cold.files import dataset_files
from ipufeed.benchmark.cold.measure import measure_cold
from ipufeed.benchmark.measuring.run import RawMeasurement
from ipufeed.benchmark.report.summary import summarize
from ipufeed.errors import MeasurementInterrupted, SourceError

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path):
    """Two files of 2 MiB and an odd byte each, on a disk; in the page cache, as written."""
    if page_cache.file_system(str(tmp_path)) in page_cache.IN_MEMORY:
        pytest.skip("the folder for temporary files is in memory: nothing can be cold")
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(b"x" * (2 * MIB + 1))
    return tmp_path


def reading(folder):
    """A dataset that reads both files, in pieces of 64 KiB."""
    paths = [str(folder / "a.bin"), str(folder / "b.bin")]
    return tf.data.FixedLengthRecordDataset(paths, 1 << 16, footer_bytes=1)


def codes(result):
    return {warning["code"] for warning in result.warnings}


def test_a_file_leaves_the_cache_and_comes_back(folder):
    """All of a file that was just written is there, none once dropped, all once read."""
    path = str(folder / "a.bin")

    assert page_cache.resident(path) == 2 * MIB + 1
    page_cache.drop(path)
    assert page_cache.resident(path) == 0
    Path(path).read_bytes()
    assert page_cache.resident(path) == 2 * MIB + 1


def test_an_empty_file_has_nothing_in_the_cache(tmp_path):
    """Nothing is mapped of nothing."""
    (tmp_path / "a").write_bytes(b"")
    page_cache.drop(str(tmp_path / "a"))

    assert page_cache.resident(str(tmp_path / "a")) == 0


def test_the_file_system_of_a_path_is_known(tmp_path):
    """The mount that is nearest above it counts."""
    assert page_cache.file_system("/proc/self/stat") == "proc"
    assert page_cache.file_system(str(tmp_path)) not in (None, "proc")


def test_files_are_found_in_the_graph(folder):
    """Names that are constants, also inside functions, and patterns."""
    expected = [str(folder / "a.bin"), str(folder / "b.bin")]
    names = tf.data.Dataset.from_tensor_slices(expected)
    inside = names.interleave(lambda path: tf.data.TFRecordDataset(path))
    captured = tf.data.Dataset.range(2).map(
        lambda k: tf.io.read_file(tf.gather(tf.constant(expected), k))
    )
    python = tf.data.Dataset.range(1).map(
        lambda k: tf.numpy_function(lambda _: b"", [k], tf.string)
    )
    listed = tf.data.Dataset.list_files(str(folder / "*.bin")).map(tf.io.read_file)

    for dataset in (reading(folder), inside, captured, listed):
        assert dataset_files(dataset) == expected
    assert dataset_files(python.concatenate(listed)) == expected


def test_files_of_python_sources_are_found(folder):
    """Parquet is read in Python, where no graph shows it; the source reports them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "t.parquet"
    pq.write_table(pa.table({"a": [1]}), path)

    assert str(path) in dataset_files(sources.parquet(path))


def test_a_pattern_of_the_user_goes_alone(folder):
    """What the user names is what is dropped, and links lead to their files once."""
    os.symlink(folder / "a.bin", folder / "link.bin")

    assert dataset_files(reading(folder), [str(folder / "[a]*")]) == [
        str(folder / "a.bin")
    ]
    assert dataset_files(reading(folder), [str(folder / "*.bin")]) == [
        str(folder / "a.bin"),
        str(folder / "b.bin"),
    ]


def test_each_pass_begins_cold(folder):
    """With passes the files are dropped before each; the result says what came of it."""
    result = measure_cold(reading(folder), Settings(passes=3))

    assert result.cold == {
        "files": 2,
        "bytes": 4 * MIB + 2,
        "drops": 3,
        "cached_bytes_before": 4 * MIB + 2,
        "cached_bytes_left": 0,
        "unknown_files": 0,
        "paths": [str(folder / "a.bin"), str(folder / "b.bin")],
    }
    assert [epoch["elements_processed"] for epoch in result.epochs] == [64, 64, 64]
    assert len(result.steady["pass_rates"]) == 3
    assert not {"not_cold", "cold_once"} & codes(result)
    assert "2 files of 4.19 MB dropped 3 times" in " ".join(summarize(result).split())


def test_files_that_stay_in_memory_are_a_warning(folder, monkeypatch):
    """Where the kernel keeps pages the result does not pretend."""
    monkeypatch.setattr(page_cache, "drop", lambda path: None)
    result = measure_cold(reading(folder), Settings(passes=1))

    assert result.cold["cached_bytes_left"] == result.cold["bytes"]
    (warning,) = (w for w in result.warnings if w["code"] == "not_cold")
    assert "100% of the files' bytes stayed in the page cache" in warning["message"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no /dev/shm")
def test_files_in_memory_are_named_as_such(folder):
    """A tmpfs cannot be cold; the warning says what to do."""
    path = Path("/dev/shm") / f"ipufeed-test-{os.getpid()}"
    path.write_bytes(b"x" * MIB)
    try:
        result = measure_cold(
            tf.data.FixedLengthRecordDataset(str(path), 1024), Settings(passes=1)
        )
    finally:
        path.unlink()
    (warning,) = (w for w in result.warnings if w["code"] == "not_cold")

    assert "on tmpfs, which is memory: copy them to a disk" in warning["message"]


def test_an_unreadable_file_is_a_warning(folder, monkeypatch):
    """The kernel lies to users that do not own the file; that is not a measurement."""
    monkeypatch.setattr(page_cache, "resident", lambda path: None)
    result = measure_cold(reading(folder), Settings(passes=1))

    assert result.cold["unknown_files"] == 2
    assert "cold_unknown" in codes(result)


def test_a_dataset_that_repeats_is_cold_once(folder):
    """Its second time through its files is warm, which the warning says."""
    result = measure_cold(reading(folder).repeat(), Settings(epochs=1, elements=100))

    assert "cold_once" in codes(result)
    assert result.cold["drops"] == 1


def test_a_dataset_without_files_is_refused_with_the_remedy(folder):
    """A run with nothing to drop is not a cold run."""
    with pytest.raises(SourceError, match=r"finds no files.*--cold-files 'data"):
        measure_cold(tf.data.Dataset.range(9), Settings(passes=1))
    with pytest.raises(SourceError, match=r"--cold-files .*gone\* matches no file"):
        measure_cold(reading(folder), files=[str(folder / "gone*")])


def test_a_file_that_goes_away_is_named(folder):
    """It was there when it was listed."""
    cache = cold.ColdFiles([str(folder / "a.bin"), str(folder / "gone")])

    with pytest.raises(SourceError, match=r"cannot drop .*gone: No such file"):
        cache.drop()


def test_ctrl_c_between_passes_keeps_the_passes_before_it(folder, monkeypatch):
    """What was measured until then is in the exception, with what was dropped."""
    drops = []

    def drop(self):
        drops.append(self)
        if len(drops) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(cold.ColdFiles, "drop", drop)
    with pytest.raises(MeasurementInterrupted) as caught:
        measure_cold(reading(folder), Settings(passes=5))

    assert len(caught.value.result.epochs) == 2
    assert caught.value.result.cold["files"] == 2


def test_the_time_between_passes_is_in_no_figure():
    """Joined runs follow each other at once: counts add up, later times move back."""
    one, other = raw(start=10, elements=[1, 2, 3]), raw(start=100, elements=[2, 4])
    joined = cold._join([one, other])

    assert joined.counters["elements"] == 5
    # The first run ends at 13.5; the second began 100 - 13.5 later.
    expected = stamps([11, 12, 13, 15.5, 17.5])
    np.testing.assert_array_equal(joined.stamps, expected)
    assert joined.counters["last_ns"] == expected[-1]
    assert joined.counters["finished_ns"] == stamps([18.0])[0]
    assert joined.epochs[:, 0].tolist() == [3, 2]
    assert joined.epochs[1, 3:].tolist() == stamps([13.5, 17.5]).tolist()
    # 0.25 s each, and the 2 s until the second run's first element.
    assert joined.counters["starved_ns"] == 2.5e9


def raw(start, elements):
    """A run that began at `start`, with elements at these seconds after it."""
    times = stamps([start + each for each in elements])
    counters = dict.fromkeys(
        [*cold.SUMS, "ended", "stopped", "capacity", "epochs_per_entry"], 0
    )
    counters |= {
        "elements": len(elements),
        "requested_ns": stamps([start])[0],
        "first_ns": times[0],
        "steady_ns": times[0],
        "last_ns": times[-1],
        "finished_ns": times[-1] + stamps([0.5])[0],
        "starved_ns": stamps([0.25])[0],
        "same_leading_dimension": 1,
    }
    row = [len(elements), 0, 0, stamps([start])[0], times[-1]]
    return RawMeasurement(counters, np.array([row]), times, None)
