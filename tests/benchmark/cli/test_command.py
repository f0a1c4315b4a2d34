"""`python -m ipufeed.benchmark` as a user calls it: files, exit codes, stdout, stderr.

    case: files + arguments --a process in a folder of its own--> exit code, stdout, stderr

All cases run before the first test, two at a time, since each of them starts TensorFlow;
the tests then look at what came of them. The dataset files are written as users write
them, and know nothing of ipufeed.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import children
import pytest
from helpers import module_runs
from results import SECTIONS

LIMIT_S = 240.0  # for a process; only a hang gets there
INTERRUPT_LIMIT_S = 20.0  # after Ctrl-C; the generators below sleep 30 s
READY = "ready for ctrl-c"

CASES = {}

# The first test waits for all cases.
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]


@dataclasses.dataclass
class Case:
    """What a process is given; `interrupt` is sent when the file says READY."""

    arguments: list
    files: dict
    interrupt: signal.Signals | None


@dataclasses.dataclass
class Done:
    """What came of it."""

    code: int
    stdout: str
    stderr: str
    folder: pathlib.Path
    seconds_after_interrupt: float = 0.0

    @property
    def result(self):
        """The JSON on stdout, which must be strict and alone."""
        return json.loads(self.stdout, parse_constant=refuse)

    @property
    def words(self):
        """stderr, however its lines were wrapped."""
        return " ".join(self.stderr.split())

    @property
    def elements(self):
        return sum(epoch["elements_processed"] for epoch in self.result["epochs"])

    @property
    def warnings(self):
        return {warning["code"] for warning in self.result["warnings"]}


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def case(name, text, arguments="dataset.py", *, interrupt=None, **files):
    """Adds a case; `text` becomes dataset.py, after its imports, unless it is None."""
    if text is not None:
        files["dataset.py"] = "import tensorflow as tf\n" + textwrap.dedent(text)
    CASES[name] = Case(arguments.split(), files, interrupt)


def execute(case, folder):
    (folder / "tmp").mkdir(parents=True)
    for name, text in case.files.items():
        (folder / name).write_text(text)
    process = children.Popen(
        [sys.executable, "-m", "ipufeed.benchmark", *case.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={
            **{k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"},
            "TMPDIR": str(folder / "tmp"),
            # Python would keep there what it compiles of AutoGraph's files.
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    watchdog = threading.Timer(LIMIT_S, process.kill)
    watchdog.start()
    with process:
        stderr, interrupted = "", 0.0
        if case.interrupt is not None:
            for line in process.stderr:
                stderr += line
                if READY in line:
                    interrupted = time.monotonic()
                    process.send_signal(case.interrupt)
                    break
        stdout, rest = process.communicate()
        ended = time.monotonic()
    watchdog.cancel()
    return Done(process.returncode, stdout, stderr + rest, folder, ended - interrupted)


runs = module_runs(lambda name, folder: execute(CASES[name], folder), CASES)


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
    """--quiet is for logs: nothing of ours stands there when all is well."""
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


def test_an_epoch_is_a_pass_where_passes_are_asked_for(runs):
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
        "ipufeed.benchmark: --passes needs a dataset that ends, and this one repeats for "
        "ever. Use --seconds, or --epochs and --elements." in done.words
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


def test_items_per_element_says_how_many_samples_there_are(runs):
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


def test_a_bandwidth_that_nobody_knows_is_no_number(runs):
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
    assert "asked for were 12 elements" in done.words


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


EXIT_FILE = """
    import atexit, pathlib, time
    atexit.register(lambda: pathlib.Path("goodbye").touch())
"""
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


def test_so_many_epochs_are_listed_in_groups(runs):
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
    """The line and the file, and nothing of ours around it."""
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
    """From its own first line on: no frame of ours, nor of Python's runner."""
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


case(
    "passed_over",
    """
    def make_dataset():
        return tf.data.Dataset.range(7)
    dataset = tf.data.Dataset.range(3)
    """,
)
case(
    "passed_over_quietly",
    CASES["passed_over"].files["dataset.py"].partition("\n")[2],
    "dataset.py --quiet",
)


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
    assert "before it gave a dataset." in done.words


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


case(
    "wrong_type",
    """
    def make_dataset(shuffle: bool = True):
        print("it was called")
        return tf.data.Dataset.range(3)
    """,
    "dataset.py --set shuffle=maybe",
)


def test_a_value_of_another_type_is_refused_before_the_function_runs(runs):
    """The message has the parameter, what it takes, and what it was given."""
    done = runs["wrong_type"]

    assert (done.code, done.stdout) == (2, "")
    assert (
        "`shuffle` must be a bool (true or false, yes or no, on or off, 1 or 0), got str "
        "'maybe'." in done.words
    )
    assert "it was called" not in done.stderr


case("missing", "def make_dataset(path, size): ...", "dataset.py --set size=3")


def test_a_missing_argument_is_refused_with_the_option_to_give(runs):
    """The message holds the --set that was left out."""
    done = runs["missing"]

    assert (done.code, done.stdout) == (2, "")
    assert (
        "make_dataset() in dataset.py needs `path`. Give --set path=VALUE."
        in done.words
    )


case("relative", "from .helpers import something")


def test_a_relative_import_is_answered_with_what_to_write(runs):
    """A file that was taken out of a package shows its traceback, and a way out."""
    done = runs["relative"]

    assert (done.code, done.stdout) == (2, "")
    assert "ImportError: attempted relative import" in done.words
    assert "Write `from package.module import name`" in done.words
    assert "PYTHONPATH" in done.words


# ---- Options ----

case("to_stdout", "dataset = tf.data.Dataset.range(9)", "dataset.py --json /dev/stdout")


def test_json_on_stdout_stands_there_once(runs):
    """--json /dev/stdout asks for what happens in any case."""
    done = runs["to_stdout"]

    assert done.code == 0, done.stderr
    assert done.elements == 9
    assert '"epochs"' not in done.stderr


case(
    "log_level",
    """
    import os
    print("level:", os.environ.get("TF_CPP_MIN_LOG_LEVEL"))
    dataset = tf.data.Dataset.range(9)
    """,
)


def test_the_environment_of_a_file_is_the_users(runs):
    """Silence while TensorFlow is imported leaves no setting behind."""
    assert "level: None" in runs["log_level"].stderr


REFUSED = {
    "--epochs 0": "--epochs must be in [1, 2147483648], got 0.",
    "--elements -3": "--elements must be in [1, 2147483648], got -3.",
    "--seconds 0": "--seconds must be in (0, 1e9], got 0.0.",
    "--seconds nan": "--seconds must be in (0, 1e9], got nan.",
    "--seconds inf": "--seconds must be in (0, 1e9], got inf.",
    "--passes 0": "--passes must be in [1, 2147483648], got 0.",
    "--items-per-element 0": "--items-per-element must be in (0, 1e9], got 0.0.",
    "--passes 2 --epochs 2": "--passes excludes --epochs and --elements",
    "--what-if decode": "--what-if must be STAGE=SPEED with a speed such as 2x",
    "--what-if decode=2": "or free, got 'decode=2': for example decode=2x.",
    "--verify --no-stages": "--verify excludes --no-stages: it needs the stages.",
    "--what-if a=2x --through device": "--what-if excludes --through",
    "--epochs many": "argument --epochs: invalid int value: 'many'",
    "--epoch 3": "unrecognized arguments: --epoch",
    "--set batch_size": "--set must be NAME=VALUE, got 'batch_size'",
    "--json no/such/folder.json": "--json must be a file in a folder that exists",
    "--set= --json=": "--json must be the name of a file, got an empty one",
    "--json /proc/result.json": "--json cannot be written: /proc/result.json: ",
    "--json tmp": "--json must be a file in a folder that exists: tmp",
    "--set batch_size=true": "`batch_size` must be an int, got str 'true'.",
    "--set batch_size=abc": "`batch_size` must be an int, got str 'abc'.",
    "--set images=1.5": "`images` must be an int, got float 1.5.",
    "--set files=600": "`files` must be in [1, 512], got 600.",
    "--step-time 12": "--step-time must be a time with its unit (ns, us, ms, s), as 12ms",
    "--result-bytes 16": "--result-bytes must be in [32, 1073741824], got 16.",
    "gone.py": "gone.py is not there: give a Python file that defines a dataset",
    "tmp": "tmp is not a file: give a Python file that defines a dataset",
    "gone.py:a-b": "`gone.py:a-b` must be FILE.py or FILE.py:NAME",
}
for options in REFUSED:
    case(options, None, options)


@pytest.mark.parametrize("options", REFUSED)
def test_wrong_options_are_refused(runs, options):
    """Exit 2, the reason on stderr, and an empty stdout: no measurement was begun."""
    done = runs[options]

    assert (done.code, done.stdout) == (2, "")
    assert REFUSED[options] in done.words
    assert "Traceback" not in done.stderr


case(
    "no_files",
    """
    from ipufeed import sources
    dataset = sources.tfrecord("nope*.tfrecord")
    """,
)


def test_files_that_cannot_be_read_are_a_sentence(runs):
    """The line of the file, what is wrong and the way out; no line of ours."""
    done = runs["no_files"]

    assert (done.code, done.stdout) == (2, "")
    assert re.search(
        r"dataset\.py:\d+: no file fits the pattern nope\*\.tfrecord: `files` must name "
        "TFRecord files",
        done.words,
    )
    assert "Traceback" not in done.stderr


# ---- Ctrl-C ----

case(
    "interrupted",
    EXIT_FILE
    + f"""
    def rows():
        yield from range(3)
        time.sleep(0.3)  # until they have been counted
        print("{READY}", flush=True)
        time.sleep(30)
        yield 3
    dataset = tf.data.Dataset.from_generator(
        rows, output_signature=tf.TensorSpec([], tf.int32)
    )
    """,
    "dataset.py --json result.json",
    interrupt=signal.SIGINT,
)


def test_ctrl_c_gives_the_partial_result_at_once(runs):
    """Exit 130 with what there is, though the generator sleeps on for half a minute."""
    done = runs["interrupted"]

    assert done.code == 130, done.stderr
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert done.elements == 3
    assert "interrupted" in done.warnings
    assert done.result["error"] is None
    assert done.stdout == (done.folder / "result.json").read_text()


def test_ctrl_c_leaves_no_traceback(runs):
    """The user has pressed it, and knows why it ended."""
    stderr = runs["interrupted"].stderr

    assert "Traceback" not in stderr
    assert "KeyboardInterrupt" not in stderr
    assert "The measurement was interrupted after 3 elements." in stderr


def test_what_a_file_registered_for_the_exit_runs_after_ctrl_c(runs):
    """Temporary files go, although the dataset's function never returned."""
    assert (runs["interrupted"].folder / "goodbye").exists()


case(
    "interrupted_before",
    f"""
    import time
    def load(i):
        print("{READY}", flush=True)
        time.sleep(30)
        return i
    dataset = tf.data.Dataset.range(3).map(lambda i: tf.py_function(load, [i], tf.int64))
    dataset = dataset.prefetch(1)
    """,
    interrupt=signal.SIGINT,
)


def test_ctrl_c_before_the_first_element_is_exit_130(runs):
    """Whatever then stands on stdout is a result without an epoch, or nothing."""
    done = runs["interrupted_before"]

    assert done.code == 130, done.stderr
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert done.stdout == "" or done.result["epochs"] == []
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr


case(
    "interrupted_in_the_file",
    f"""
    import time
    print("{READY}", flush=True)
    time.sleep(30)
    """,
    interrupt=signal.SIGINT,
)


def test_ctrl_c_while_the_file_runs_is_exit_130(runs):
    """There is nothing to print by then, and a line says so."""
    done = runs["interrupted_in_the_file"]

    assert (done.code, done.stdout) == (130, "")
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert "ipufeed.benchmark: interrupted before anything was measured." in done.stderr


# ---- Ctrl-C in code that was made from text ----

# As the class that namedtuple() makes is: an import of TensorFlow makes hundreds.
MADE_OF_TEXT = f"""
    import time
    exec("print('{READY}', flush=True); time.sleep(30)")
    """
case("interrupted_in_exec", MADE_OF_TEXT, interrupt=signal.SIGINT)
case("terminated_in_exec", MADE_OF_TEXT, interrupt=signal.SIGTERM)


@pytest.mark.parametrize(
    ("name", "code"), [("interrupted_in_exec", 130), ("terminated_in_exec", 143)]
)
def test_a_signal_in_code_that_was_made_from_text_is_one_like_any_other(
    runs, name, code
):
    """CPython would end by SIGINT for a KeyboardInterrupt that has left such code."""
    done = runs[name]

    assert (done.code, done.stdout) == (code, "")
    assert "ipufeed.benchmark: interrupted before anything was measured." in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_while_tensorflow_is_imported_is_one_like_any_other(
    tmp_path, number, code
):
    """The import, here of a stand-in, runs such code and gets the signal there."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(
        "import os\n"
        f"exec('os.kill(os.getpid(), {int(number)})')\n"
        "raise SystemExit('the signal got lost')\n"
    )
    (tmp_path / "dataset.py").write_text("dataset = None\n")

    done = children.run(
        [sys.executable, "-m", "ipufeed.benchmark", str(tmp_path / "dataset.py")],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(tmp_path), os.environ.get("PYTHONPATH", "")]
            ),
        },
    )

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "interrupted before anything was measured." in done.stderr


case(
    "terminated",
    EXIT_FILE
    + f"""
    def rows():
        yield from range(3)
        time.sleep(0.3)  # until they have been counted
        print("{READY}", flush=True)
        time.sleep(30)
        yield 3
    dataset = tf.data.Dataset.from_generator(
        rows, output_signature=tf.TensorSpec([], tf.int32)
    )
    """,
    interrupt=signal.SIGTERM,
)


def test_sigterm_gives_the_partial_result_at_once(runs):
    """As a scheduler ends a job: exit 143 with what there is, and no traceback."""
    done = runs["terminated"]

    assert done.code == 143, done.stderr
    assert done.seconds_after_interrupt < INTERRUPT_LIMIT_S
    assert done.elements == 3
    assert "interrupted" in done.warnings
    assert "Traceback" not in done.stderr
    assert (done.folder / "goodbye").exists()


case(
    "forks",
    """
    import os, signal, time
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(here, b"!")
        time.sleep(30)
        os._exit(0)
    os.read(there, 1)  # a signal that comes during the fork is lost
    os.kill(child, signal.SIGTERM)
    print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    dataset = tf.data.Dataset.range(3)
    """,
)


def test_a_process_that_a_file_forks_can_be_terminated(runs):
    """A worker ends by the signal, as it would under `python dataset.py`."""
    done = runs["forks"]

    assert done.code == 0, done.stderr
    assert f"child: -{int(signal.SIGTERM)}" in done.stderr
    assert "Traceback" not in done.stderr


# ---- Truth ----

case(
    "known_rate",
    """
    import time
    def rows():
        i, start = 0, time.monotonic()
        while True:
            i += 1
            # Against the clock: what else happens in between takes no extra time.
            time.sleep(max(0, start + 0.01 * i - time.monotonic()))
            yield [i] * 4
    dataset = tf.data.Dataset.from_generator(
        rows, output_signature=tf.TensorSpec([4], tf.float32)
    )
    """,
    "dataset.py --seconds 3",
)


def test_the_rate_lies_in_its_interval(runs):
    """How right it is, the self-test says: `python -m ipufeed.benchmark selftest`."""
    steady = runs["known_rate"].result["steady"]
    low, high = steady["interval"]

    assert 0 < low <= steady["elements_per_second"] <= high


def test_seconds_are_the_time_of_the_measurement(runs):
    """--seconds 3 is three seconds after the first element, in epochs of about one."""
    epochs = runs["known_rate"].result["epochs"]

    assert sum(epoch["time_elapsed"] for epoch in epochs) >= 3  # start-up included
    assert 1 <= len(epochs) <= 4


# ---- What holds it back ----

case(
    "held_back",
    """
    import time

    def decode(number):
        time.sleep(0.004)
        return number

    def wrapped(number):
        return tf.numpy_function(decode, [number], tf.int64)

    dataset = tf.data.Dataset.range(10**9).map(wrapped, name="decode").batch(2)
    """,
    "dataset.py --seconds 2 --verify --what-if decode=2x --what-if decode=free",
)


def test_the_stage_that_holds_a_pipeline_back_is_named(runs):
    """In the JSON and in the summary, with the answers to what was asked."""
    result, stderr = runs["held_back"].result, runs["held_back"].stderr

    assert result["stages"][0]["name"] == "decode"
    assert 0 < result["stages"][0]["share"] <= 1
    assert all({"code", "held", "measured_gain"} <= set(a) for a in result["advice"])
    assert [each["question"] for each in result["what_if"]] == [
        "decode=2x",
        "decode=free",
    ]
    assert "\n  decode  " in stderr
    assert "\nwhat if decode=2x: " in stderr


case(
    "no_such_stage",
    "dataset = tf.data.Dataset.range(10**9).map(lambda x: x + 1, name='decode')",
    "dataset.py --seconds 600 --what-if dekode=2x",
)


def test_a_stage_that_is_not_there_is_refused_before_anything_runs(runs):
    """Exit code 2, and the names that there are; not after ten minutes."""
    done = runs["no_such_stage"]

    assert done.code == 2
    assert "--what-if must name a stage of the pipeline, and `dekode` is" in done.words
    assert "`decode`" in done.words
    assert done.stdout == ""


case(
    "no_stages",
    """
    def numbers():
        print("iterated")
        yield from range(10**9)

    dataset = tf.data.Dataset.from_generator(
        numbers, output_signature=tf.TensorSpec([], tf.int64)
    )
    """,
    "dataset.py --seconds 1.5 --no-stages",
)


def test_without_stages_the_dataset_is_iterated_once(runs):
    """For what cannot be read twice."""
    done = runs["no_stages"]

    assert done.result["stages"] is None
    assert done.stderr.count("iterated") == 1


# ---- Help ----


def test_help_does_not_import_tensorflow():
    """--help answers at once, with the options, the exit codes and examples."""
    done = children.run(
        [sys.executable, "-X", "importtime", "-m", "ipufeed.benchmark", "--help"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )

    assert "argparse" in done.stderr  # the report of the imports is there
    assert "tensorflow" not in done.stderr
    assert "numpy" not in done.stderr
    for text in ("--passes N", "exit codes:", "examples:", "--set batch_size=64"):
        assert text in done.stdout
    for text in ("an empty stdout", "is not a result"):
        assert text in done.stdout


# ---- Streams that are not there ----


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_was_closed_is_no_failure(tmp_path, closed):
    """A daemon's process may have none; the JSON still goes where it was asked to go."""
    file = tmp_path / "dataset.py"
    file.write_text("import tensorflow as tf\ndataset = tf.data.Dataset.range(10)\n")
    kept = tmp_path / "result.json"
    command = (
        f"'{sys.executable}' -m ipufeed.benchmark '{file}' --json '{kept}' {closed}"
    )

    done = children.run(
        command, shell=True, capture_output=True, timeout=LIMIT_S, check=False
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(kept.read_text())["epochs"][0]["elements_processed"] == 10


# ---- Ctrl-C, twice ----


def wait_for_thread(process, name):
    """Waits until a process has a thread with that in its name."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                if name in (thread / "comm").read_text():
                    return
        time.sleep(0.05)
    raise TimeoutError(f"no thread {name}")


@pytest.mark.parametrize("apart_s", [0.0, 0.01, 0.05, 0.2])
def test_a_second_ctrl_c_does_not_lose_the_result(tmp_path, apart_s):
    """However soon it comes: exit 130, the partial JSON, and no traceback."""
    file = tmp_path / "dataset.py"
    file.write_text(
        "import tensorflow as tf\n"
        "from tensorflow.python.data.experimental.ops import testing\n"
        "dataset = tf.data.Dataset.range(1).repeat().apply(testing.sleep(5000))\n"
    )
    kept = tmp_path / "stderr"
    with (
        kept.open("w") as stderr,
        children.Popen(
            [sys.executable, "-m", "ipufeed.benchmark", str(file), "--seconds", "60"],
            stdout=subprocess.PIPE,
            stderr=stderr,
        ) as process,
    ):
        wait_for_thread(process.pid, "ipufeed")
        time.sleep(2)  # some of the measurement
        process.send_signal(signal.SIGINT)
        time.sleep(apart_s)
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 130, kept.read_text()
    assert "Traceback" not in kept.read_text()
    assert json.loads(stdout)["epochs"][0]["elements_processed"] > 0
