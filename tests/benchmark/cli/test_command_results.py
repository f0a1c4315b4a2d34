"""The command's rates, stages, help and streams."""

import json
import sys

import children
import pytest
from command_cases import command_cases
from helpers import DEADLOCK_S

# The first test waits for all cases.
pytestmark = [pytest.mark.process, pytest.mark.timeout(1200), pytest.mark.long]

case, runs = command_cases()


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
    assert "--what-if must name a stage of the pipeline, got `dekode`" in done.words
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
        timeout=DEADLOCK_S,
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


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_stream_that_was_closed_is_not_a_failure(tmp_path, closed):
    """A daemon's process may have none; the JSON still goes where it was asked to go."""
    file = tmp_path / "dataset.py"
    file.write_text("import tensorflow as tf\ndataset = tf.data.Dataset.range(10)\n")
    kept = tmp_path / "result.json"
    command = (
        f"'{sys.executable}' -m ipufeed.benchmark '{file}' --json '{kept}' {closed}"
    )

    done = children.run(
        command, shell=True, capture_output=True, timeout=DEADLOCK_S, check=False
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(kept.read_text())["epochs"][0]["elements_processed"] == 10
