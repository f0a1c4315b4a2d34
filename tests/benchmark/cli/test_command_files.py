"""The command on dataset files: what they print, import, register, raise and hide."""

import re

import pytest
from command_cases import EXIT_FILE, command_cases

# The first test waits for all cases.
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

case, runs = command_cases()


# ---- What files may do ----

case(
    "prints",
    """
    import os, subprocess
    print("by print")
    os.write(1, b"by os.write\\n")
    subprocess.run(["echo", "by another process"])
    def show(i):
        print("by a function", int(i))
        return i
    dataset = tf.data.Dataset.range(3).map(lambda i: tf.py_function(show, [i], tf.int64))
    dataset = dataset.map(lambda i: (tf.print("by tf.print", i), i)[1])
    """,
)


def test_what_a_file_prints_goes_to_stderr(runs):
    """By whatever way it prints, stdout holds the result alone."""
    done = runs["prints"]

    assert done.code == 0, done.stderr
    assert done.elements == 3
    for text in ("by print", "by os.write", "by another process", "by a function 2"):
        assert text in done.stderr
        assert text not in done.stdout
    assert "by tf.print 2" in done.stderr


case(
    "graph_mode",
    """
    tf.compat.v1.disable_eager_execution()
    keys = tf.range(100, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, keys * 2), -1
    )
    dataset = tf.compat.v1.data.Dataset.range(100).map(table.lookup).batch(4)
    """,
)


def test_a_file_may_be_of_tensorflow_1(runs):
    """Without eager execution, the dataset and its table are run in a session."""
    done = runs["graph_mode"]

    assert done.code == 0, done.stderr
    assert done.elements == 25
    assert done.result["dataset"]["bytes_per_element"] == 32


def test_samples_of_a_dataset_of_tensorflow_1_are_what_was_batched(runs):
    """The adapters of TensorFlow 1 do not hide the batch."""
    assert runs["graph_mode"].result["dataset"]["samples_per_element"] == 4


case(
    "sets",
    """
    def make_dataset(batch_size: int, name: str, shuffle=True, path="x", scale=1.0):
        print("got", (batch_size, name, shuffle, path, scale))
        return tf.data.Dataset.range(64).repeat().batch(batch_size)
    """,
    "dataset.py --set batch_size=16 --set name=1 --set shuffle=False --set path=a=b/c "
    "--set scale=1e-3 --epochs 1 --elements 4",
)


def test_set_gives_a_factory_its_arguments(runs):
    """Python literals are values, all else is text, and so is what is annotated as text."""
    done = runs["sets"]

    assert done.code == 0, done.stderr
    assert "got (16, '1', False, 'a=b/c', 0.001)" in done.stderr
    assert done.result["dataset"]["samples_per_element"] == 16
    assert done.result["dataset"]["name"] == "dataset.py:make_dataset"


case(
    "shadows",
    None,
    "json.py --epochs 1 --elements 3",
    **{
        "json.py": "import tensorflow as tf\nprint('a run')\n"
        "dataset = tf.data.Dataset.range(3)\n",
        "numpy.py": "raise SystemExit('numpy.py was imported')\n",
        "argparse.py": "raise SystemExit('argparse.py was imported')\n",
        "tqdm.py": "raise SystemExit('tqdm.py was imported')\n",
    },
)


def test_files_of_the_working_directory_are_not_imported_for_modules(runs):
    """A folder may hold a numpy.py, and the dataset file itself be called json.py."""
    done = runs["shadows"]

    assert done.code == 0, done.stderr
    assert done.elements == 3
    assert done.stderr.count("a run") == 1
    assert "was imported" not in done.stderr


case(
    "atexit",
    EXIT_FILE
    + """
    def rows():
        yield from range(3)
        time.sleep(20)
    dataset = tf.data.Dataset.from_generator(
        rows, output_signature=tf.TensorSpec([], tf.int32)
    )
    """,
    "dataset.py --seconds 0.3",
)


def test_what_a_file_registered_for_the_exit_runs(runs):
    """A file that removes its temporary files at exit can rely on it.

    That a generator is still busy by then makes no difference.
    """
    done = runs["atexit"]

    assert done.code == 0, done.stderr
    assert (done.folder / "goodbye").exists()


case(
    "tiny_epochs",
    "dataset = tf.data.Dataset.range(50_000)",
    "dataset.py --elements 1",
)


def test_many_epochs_are_listed_in_groups(runs):
    """Epochs of one element do not make a result of 10 MB, which says what it did."""
    done = runs["tiny_epochs"]
    counts = [epoch["elements_processed"] for epoch in done.result["epochs"]]
    each = done.result["settings"]["epochs_per_entry"]

    assert len(counts) <= 8192
    assert sum(counts) == 50_000
    assert set(counts[:-1]) == {each}
    assert "epochs_merged" in done.warnings
    assert len(done.stdout) < 3e6


case("built_in", None, "--set images=64 --set batch_size=8 --seconds 0.5")


def test_without_a_file_the_built_in_pipeline_is_measured(runs):
    """It takes --set like any factory, and removes its files."""
    done = runs["built_in"]

    assert done.code == 0, done.stderr
    assert done.result["dataset"]["samples_per_element"] == 8
    assert list((done.folder / "tmp").iterdir()) == []


# ---- Files that give no dataset ----

case("syntax_error", "dataset = tf.data.Dataset.range(3\nx = 1")


def test_a_syntax_error_is_shown_as_python_shows_it(runs):
    """The line and the file, without ipufeed's own text."""
    done = runs["syntax_error"]

    assert (done.code, done.stdout) == (2, "")
    assert 'File "dataset.py", line 2\n    dataset = tf' in done.stderr
    assert "SyntaxError: '(' was never closed" in done.stderr
    assert "ipufeed" not in done.stderr


case(
    "raises",
    """
    def helper():
        return {}["batch_size"]
    def make_dataset():
        return helper()
    """,
)


def test_a_file_that_raises_shows_its_own_traceback(runs):
    """From its own first line on: no frame of ipufeed, nor of Python's runner."""
    done = runs["raises"]
    frames = re.findall(r'File "(.*?)", line \d+, in (\w+)', done.stderr)

    assert (done.code, done.stdout) == (2, "")
    assert frames == [("dataset.py", "make_dataset"), ("dataset.py", "helper")]
    assert "KeyError: 'batch_size'" in done.stderr
    assert "ipufeed" not in done.stderr


case(
    "fails_at_length",
    """
    def check(i):
        raise ValueError("the row is bad: " + "/a/long/path" * 8 + " " + "word " * 40)
    dataset = tf.data.Dataset.range(9).map(lambda i: tf.py_function(check, [i], tf.int64))
    """,
)


def test_the_message_of_an_error_is_one_line_in_a_pipe(runs):
    """However long: grep finds all of it."""
    lines = runs["fails_at_length"].stderr.splitlines()
    message = "the row is bad: " + "/a/long/path" * 8 + " " + "word " * 40

    assert any(message.strip() in line for line in lines)


PASSED_OVER = """
    def make_dataset():
        return tf.data.Dataset.range(7)
    dataset = tf.data.Dataset.range(3)
"""
case("passed_over", PASSED_OVER)
case("passed_over_quietly", PASSED_OVER, "dataset.py --quiet")


def test_a_factory_that_was_passed_over_is_mentioned(runs):
    """A file with both may have meant the other one; the note says how to name it."""
    done = runs["passed_over"]

    assert (done.code, done.elements) == (0, 3)
    assert (
        "ipufeed.benchmark: dataset.py has make_dataset() as well: measuring `dataset`. "
        "For the other name it: dataset.py:make_dataset." in done.words
    )
    assert "make_dataset" not in runs["passed_over_quietly"].stderr


case("exits", "import sys\nsys.exit('no GPU here')")


def test_a_file_that_exits_is_bad_input(runs):
    """Its own exit code is not taken for ours; its output is shown."""
    done = runs["exits"]

    assert (done.code, done.stdout) == (2, "")
    assert "dataset.py called sys.exit('no GPU here')" in done.words
    assert "before it returned a dataset." in done.words


case(
    "several",
    "train = tf.data.Dataset.range(3)\ntest = train.take(1)\nvalid = train.take(2)",
)


def test_several_datasets_are_refused_with_all_their_names(runs):
    """Unless one of them is called `dataset`, it is unclear which is meant."""
    done = runs["several"]

    assert (done.code, done.stdout) == (2, "")
    assert (
        "ipufeed.benchmark: dataset.py has several to choose from: test, train, valid. "
        "Call one `dataset`, or name it: dataset.py:test." in done.words
    )
