"""`python -m ipufeed.benchmark` as a user calls it: counts, results and failures."""

import re

import pytest
from command_cases import command_cases
from results import SECTIONS

# The first test waits for all cases.
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

case, runs = command_cases()


# ---- Counts ----

case("finite", "dataset = tf.data.Dataset.range(1000).batch(8)")


def test_a_finite_dataset_is_measured_to_its_end(runs):
    """Shorter than asked is not a failure: exit 0, all its elements, and a warning."""
    done = runs["finite"]

    assert done.code == 0
    assert done.elements == 125
    assert "dataset_ended" in done.warnings
    assert done.result["error"] is None
    assert done.result["dataset"]["cardinality"] == 125


def test_samples_are_what_was_batched(runs):
    """1000 rows in batches of 8 are 8 samples an element."""
    assert runs["finite"].result["dataset"]["samples_per_element"] == 8


def test_the_result_stands_on_stdout_and_its_summary_on_stderr(runs):
    """Programs read one, people the other."""
    done = runs["finite"]

    assert done.stdout.startswith("{\n")
    assert done.stdout.endswith("}\n")
    assert "dataset.py:dataset\n  rate " in done.stderr
    assert "warning: The dataset ended after 125 elements" in done.stderr


def test_the_result_has_all_its_sections(runs):
    """The schema's keys are there whatever was measured."""
    keys = set(runs["finite"].result)

    assert keys == set(SECTIONS)


case(
    "nested",
    """
    import collections
    Point = collections.namedtuple("Point", "x y")
    dataset = tf.data.Dataset.range(7).repeat().map(
        lambda i: (
            {"point": Point(tf.zeros([3]), tf.ones([2, 2], tf.float64)), "id": i},
            (tf.constant("four"), tf.constant([True])),
        )
    )
    """,
    "dataset.py --epochs 4 --elements 50 --no-memcpy --json result.json --quiet",
)


def test_epochs_and_elements_fix_the_counts(runs):
    """--epochs N --elements M is N epochs of M elements of an endless dataset."""
    done = runs["nested"]

    assert done.code == 0, done.stderr
    assert [epoch["elements_processed"] for epoch in done.result["epochs"]] == [50] * 4


def test_bytes_of_a_nested_structure_are_exact(runs):
    """12 + 32 + 8 bytes of numbers, 4 of text and 1 of truth, over all components."""
    done = runs["nested"]
    totals = [epoch["total_bytes_processed"] for epoch in done.result["epochs"]]

    assert totals == [50 * 57] * 4
    assert done.result["dataset"]["bytes_per_element"] == 57


def test_the_structure_of_an_element_is_in_the_result(runs):
    """Dicts stay dicts, a namedtuple becomes one, and a tuple becomes a list."""
    spec = runs["nested"].result["dataset"]["element_spec"]

    assert spec == [
        {"point": {"x": "float32 (3,)", "y": "float64 (2, 2)"}, "id": "int64 ()"},
        ["string ()", "bool (1,)"],
    ]


def test_no_memcpy_leaves_the_copy_out(runs):
    """A copy that was not made has no time."""
    assert runs["nested"].result["memcpy"] is None


def test_the_json_file_holds_what_stdout_does(runs):
    """--json FILE writes the same text, and leaves no other file."""
    done = runs["nested"]

    assert done.stdout == (done.folder / "result.json").read_text()
    assert {"dataset.py", "result.json", "tmp"} == {
        path.name for path in done.folder.iterdir() if path.name != "__pycache__"
    }


def test_quiet_leaves_no_summary_on_stderr(runs):
    """--quiet is for logs: ipufeed writes nothing there when all is well."""
    done = runs["nested"]

    assert "elements" not in done.stderr
    assert "ipufeed" not in done.stderr


case(
    "passes",
    """
    calls = 0
    def count(i):
        global calls
        calls += 1
        print("calls:", calls)
        return i
    dataset = tf.data.Dataset.range(30).map(
        lambda i: tf.ensure_shape(tf.py_function(count, [i], tf.int64), [])
    ).cache()
    """,
    "dataset.py --passes 2",
)


def test_an_epoch_is_a_pass_where_passes_are_requested(runs):
    """Two passes over thirty elements are two epochs of thirty, and no warning."""
    done = runs["passes"]
    counts = [epoch["elements_processed"] for epoch in done.result["epochs"]]

    assert done.code == 0
    assert counts == [30, 30]
    assert "dataset_ended" not in done.warnings


def test_a_second_pass_reads_what_the_first_one_cached(runs):
    """The passes are of one dataset, not of two copies of it."""
    calls = [int(n) for n in re.findall(r"calls: (\d+)", runs["passes"].stderr)]

    assert max(calls) == 30


case(
    "passes_of_endless",
    "dataset = tf.data.Dataset.range(3).repeat()",
    "dataset.py --passes 2",
)


def test_passes_of_a_dataset_that_never_ends_are_refused(runs):
    """The message says what to use instead."""
    done = runs["passes_of_endless"]

    assert (done.code, done.stdout) == (2, "")
    assert (
        "ipufeed.benchmark: --passes needs a dataset that ends, and this one is infinite. "
        "Use --seconds, or --epochs and --elements." in done.words
    )


# ---- Datasets that fail ----

case(
    "fails",
    """
    def check(i):
        if i == 5:
            raise ValueError("row 5 is bad")
        return i
    dataset = tf.data.Dataset.range(9).map(lambda i: tf.py_function(check, [i], tf.int64))
    """,
)


def test_a_dataset_that_fails_in_the_middle_gives_a_partial_result(runs):
    """Exit 2, with the elements before it and the error in the JSON."""
    done = runs["fails"]
    error = done.result["error"]

    assert done.code == 2
    assert done.elements == 5
    assert {"type", "message", "element"} == set(error)
    assert error["type"] == "InvalidArgumentError"  # TensorFlow's name for a ValueError
    assert error["element"] == 5
    assert "ValueError: row 5 is bad" in error["message"]


def test_the_cause_of_a_failure_stands_on_stderr(runs):
    """With the element that it came at."""
    stderr = runs["fails"].words

    assert "failed at element 5 (from 0) with InvalidArgumentError" in stderr
    assert "ValueError: row 5 is bad" in stderr


case(
    "fails_at_once",
    'dataset = tf.data.TFRecordDataset(["not-there.tfrecord"]).batch(4)',
)


def test_a_dataset_that_fails_at_its_first_element_has_no_epochs(runs):
    """Exit 2, not 4: that nothing was measured has a cause, and it is shown."""
    done = runs["fails_at_once"]

    assert done.code == 2
    assert done.result["epochs"] == []
    assert done.result["error"]["type"] == "NotFoundError"
    assert done.result["error"]["element"] == 0
    assert "not-there.tfrecord" in done.stderr


def test_a_result_without_an_element_has_nulls_for_its_figures(runs):
    """No figure is made up where nothing was measured."""
    result = runs["fails_at_once"].result

    assert [
        result[key] for key in ("startup", "steady", "latency", "memcpy", "calibration")
    ] == [None] * 5
