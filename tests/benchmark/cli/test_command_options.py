"""The command's options: values, refusals, stdout and files that cannot be read."""

import re

import pytest
from command_cases import command_cases

# The first test waits for all cases.
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

case, runs = command_cases()


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
    """The line of the file, what is wrong and the remedy; no line of ipufeed."""
    done = runs["no_files"]

    assert (done.code, done.stdout) == (2, "")
    assert re.search(
        r"dataset\.py:\d+: no file matches the pattern nope\*\.tfrecord in \S+: "
        "`files` must name TFRecord files",
        done.words,
    )
    assert "Traceback" not in done.stderr
