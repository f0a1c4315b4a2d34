"""The command on datasets of every kind: generators, ragged, nested, huge, empty."""

import re

import pytest
from command_cases import command_cases

# The first test waits for all cases.
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

case, runs = command_cases()


case(
    "generator_fails",
    """
    def rows():
        for i in range(3):
            yield i
        raise RuntimeError("the line is dead\\a")
    dataset = tf.data.Dataset.from_generator(
        rows, output_signature=tf.TensorSpec([], tf.int32)
    ).prefetch(2)
    """,
    "dataset.py --quiet",
)


def test_a_generator_that_raises_is_a_dataset_that_fails(runs):
    """Its exception is in the message, with the elements that it gave before."""
    done = runs["generator_fails"]

    assert done.code == 2
    assert done.elements == 3
    assert done.result["error"]["element"] == 3
    assert "the line is dead" in done.result["error"]["message"]


def test_the_cause_stands_on_stderr_even_when_quiet(runs):
    """--quiet drops the summary, not what went wrong."""
    done = runs["generator_fails"]

    assert "ipufeed.benchmark: the dataset failed: " in done.stderr
    assert "the line is dead" in done.stderr
    assert "between elements" not in done.stderr
    assert "\a" not in done.stderr  # nor does it ring the terminal's bell


case("empty", "dataset = tf.data.Dataset.range(5).filter(lambda i: i > 9)")


def test_an_empty_dataset_is_exit_4(runs):
    """The result is there, with a warning and without epochs."""
    done = runs["empty"]

    assert done.code == 4
    assert done.result["epochs"] == []
    assert done.result["error"] is None
    assert "empty_dataset" in done.warnings
    assert "The dataset ended without a single element." in done.stderr


# ---- What elements may be ----

case(
    "ragged_and_sparse",
    """
    row = tf.sparse.from_dense(tf.constant([0.0, 3.0, 0.0, 4.0]))
    dataset = tf.data.Dataset.range(10).map(lambda i: (tf.range(i), row)).ragged_batch(5)
    """,
)


def test_ragged_and_sparse_elements_are_measured(runs):
    """Their bytes are those of the rows: values, and where they belong."""
    done = runs["ragged_and_sparse"]
    ragged, sparse = done.result["dataset"]["element_spec"]
    ragged_bytes = 45 * 8  # 0 + 1 + ... + 9 values
    sparse_bytes = 10 * (2 * 4 + 2 * 8 + 8)  # values, indices, the shape

    assert done.code == 0, done.stderr
    assert done.elements == 2
    assert ragged.startswith("RaggedTensor int64 ")
    assert sparse.startswith("SparseTensor float32 ")
    assert (
        ragged_bytes + sparse_bytes
        == (done.result["epochs"][0]["total_bytes_processed"])
    )


def test_samples_of_ragged_and_sparse_batches_are_their_rows(runs):
    """A batch of 5 rows is 5 samples, however many values they have."""
    assert runs["ragged_and_sparse"].result["dataset"]["samples_per_element"] == 5


case(
    "unbatched",
    """
    words = tf.data.Dataset.from_tensor_slices(["a", "bc", "", "déf"]).repeat()
    """,
    "dataset.py:words --epochs 2 --elements 400 --items-per-element 2.5",
)


def test_unbatched_text_is_measured(runs):
    """A dataset under another name; bytes are those of the text: 0 + 1 + 2 + 4 of four."""
    done = runs["unbatched"]

    assert done.code == 0, done.stderr
    assert done.result["dataset"]["element_spec"] == "string ()"
    assert done.result["dataset"]["name"] == "dataset.py:words"
    assert [e["total_bytes_processed"] for e in done.result["epochs"]] == [700, 700]


def test_items_per_element_gives_the_number_of_samples(runs):
    """The pipeline does not show it, so the user sets it."""
    result = runs["unbatched"].result

    assert result["dataset"]["samples_per_element"] == 2.5
    assert result["steady"]["samples_per_second"] == pytest.approx(
        2.5 * result["steady"]["elements_per_second"]
    )


case("window", "dataset = tf.data.Dataset.range(40).window(4)")


def test_a_dataset_of_datasets_is_measured(runs):
    """Its elements are counted, and a warning says that their bytes are not."""
    done = runs["window"]

    assert done.code == 0, done.stderr
    assert done.elements == 10
    assert "bytes_unknown" in done.warnings
    assert "DatasetSpec" in done.result["dataset"]["element_spec"]


def test_an_unknown_bandwidth_is_null(runs):
    """Null in the JSON and `unknown` in the summary, never 0 bytes."""
    done = runs["window"]

    assert done.result["dataset"]["bytes_per_element"] is None
    assert done.result["steady"]["bandwidth"] is None
    assert done.result["memcpy"]["bandwidth"] is None
    assert re.search(r"\n  bandwidth +unknown: ", done.stderr)


case(
    "no_bytes",
    """
    dataset = tf.data.Dataset.range(20).map(lambda i: (tf.zeros([0, 5]), i)).batch(2)
    """,
    "dataset.py --epochs 3 --elements 4",
)


def test_a_dimension_of_size_0_is_measured(runs):
    """A tensor without a byte is a tensor like any other."""
    done = runs["no_bytes"]

    assert done.code == 0, done.stderr
    assert done.elements == 10
    assert done.result["dataset"]["bytes_per_element"] == 16


def test_epochs_of_a_dataset_that_is_shorter_than_asked_are_exact(runs):
    """The last epoch has what was left, and the warning both numbers."""
    done = runs["no_bytes"]
    counts = [epoch["elements_processed"] for epoch in done.result["epochs"]]

    assert counts == [4, 4, 2]
    assert "ended after 10 elements" in done.stderr
    assert "requested: 12 elements" in done.words


case(
    "huge",
    """
    dataset = tf.data.Dataset.range(10**6).map(
        lambda i: tf.fill([50_000_000], tf.cast(i, tf.float32))
    )
    """,
    "dataset.py --epochs 2 --elements 8",
)


def test_huge_elements_do_not_pile_up_in_memory(runs):
    """The queue is bounded in bytes, too: 32 elements of 200 MB would be 6.4 GB."""
    done = runs["huge"]

    assert done.code == 0, done.stderr
    assert done.elements == 16
    assert done.result["dataset"]["bytes_per_element"] == 200_000_000
    assert done.result["resources"]["peak_rss_bytes"] < 2.7e9
