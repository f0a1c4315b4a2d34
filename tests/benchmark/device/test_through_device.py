"""What `--through device` promises: every element counted, each link reported, no hang.

    case --a process--> exit code, stdout (JSON), stderr (summary)

All cases run before the first test, two at a time; what needs no process of its own is
tested in this one.
"""

import json
import logging
import signal
import subprocess
import sys
import threading

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, module_runs

from ipufeed.benchmark import Settings
from ipufeed.benchmark.device.feed_check import check_feedable
from ipufeed.benchmark.device.measure import measure_alone, measure_through
from ipufeed.errors import UnsupportedElementError

READY = "ready for ctrl-c"

FILE = """
import sys, time
import tensorflow as tf

def finite():
    numbers = tf.data.Dataset.range(1000).map(lambda x: tf.cast(x, tf.int32))
    return numbers.batch(8, drop_remainder=True)

def images():
    element = {"image": tf.zeros([4, 8, 8, 3], tf.uint8), "label": tf.zeros([4], tf.int32)}
    return tf.data.Dataset.from_tensors(element).repeat()

def failing():
    numbers = tf.data.Dataset.range(1000).map(lambda x: tf.cast(x, tf.float32))
    return numbers.map(lambda x: tf.debugging.check_numerics(1.0 / (500.0 - x), "boom"))

def empty():
    return tf.data.Dataset.range(0).map(lambda x: tf.cast(x, tf.int32))

def wide():
    return tf.data.Dataset.range(1000).batch(8, drop_remainder=True)

def slow():
    def generate():
        for number in range(10**6):
            if number == 50:
                print("READY", file=sys.stderr, flush=True)
            time.sleep(0.005 if number < 50 else 30)
            yield number
    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([], tf.int32)
    )
""".replace("READY", READY)

CASES = {
    "finite": "finite --items-per-element 8",
    "images": "images --seconds 1",
    "failing": "failing",
    "empty": "empty",
    "wide": "wide",
    "slow": "slow",
}


def execute(name, folder):
    """Runs a case; the slow one gets a Ctrl-C once its generator is asleep."""
    (folder / "dataset.py").write_text(FILE)
    function, *options = CASES[name].split()
    process = children.Popen(
        [
            *(sys.executable, "-m", "ipufeed.benchmark", f"dataset.py:{function}"),
            *("--through", "device", *options),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    watchdog = threading.Timer(DEADLOCK_S, process.kill)
    watchdog.start()
    stderr = ""
    if name == "slow":
        for line in process.stderr:
            stderr += line
            if READY in line:
                process.send_signal(signal.SIGINT)
                break
    stdout, rest = process.communicate()
    watchdog.cancel()
    return process.returncode, stdout, stderr + rest


runs = module_runs(execute, CASES)  # name -> (exit code, stdout, stderr)


def result_of(run):
    """The JSON on stdout, which must be strict and alone."""

    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    return json.loads(run[1], parse_constant=refuse)


def elements(result):
    return sum(epoch["elements_processed"] for epoch in result["epochs"])


@pytest.mark.process
def test_all_elements_of_a_finite_dataset_are_counted(runs):
    """It ends with its program: exit 0, 125 batches of 8, and a warning that it ended."""
    result = result_of(runs["finite"])

    assert runs["finite"][0] == 0
    assert elements(result) == 125
    assert result["epochs"][0]["total_bytes_processed"] == 125 * 8 * 4
    assert "dataset_ended" in {warning["code"] for warning in result["warnings"]}
    assert result["settings"]["through"] == "device"


@pytest.mark.process
def test_each_link_is_reported(runs):
    """The dataset alone, both sides of the infeed, the program, the outfeed, the host."""
    links = result_of(runs["images"])["links"]

    assert runs["images"][0] == 0
    assert links["slowest"] in ("dataset", "infeed", "program", "host")
    assert links["dataset"]["elements_per_second"] > 0
    assert links["infeed"]["capacity"] == 32
    for share in (
        links["infeed"]["starved_share"],
        links["infeed"]["blocked_share"],
        links["program"]["busy_share"],
        links["outfeed"]["blocked_share"],
    ):
        assert 0 <= share <= 1
    assert links["program"]["seconds_per_element"] > 0
    latency = links["host"]["latency_ns"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]


@pytest.mark.process
def test_the_bytes_are_those_of_all_components(runs):
    """4 images of 8 x 8 x 3 bytes and 4 labels of 4 bytes are 784 bytes and 4 samples."""
    result = result_of(runs["images"])

    assert result["dataset"]["bytes_per_element"] == 4 * 8 * 8 * 3 + 4 * 4
    assert result["memcpy"] is None
    assert result["calibration"]["ceiling_elements_per_second"] > 0


@pytest.mark.process
def test_the_summary_has_every_link(runs):
    """A row for each link."""
    lines = runs["images"][2].splitlines()

    for label in (
        "slowest link",
        "dataset alone",
        "infeed",
        "device program",
        "outfeed",
    ):
        assert any(line.startswith(f"  {label}  ") for line in lines), label


@pytest.mark.process
def test_a_dataset_that_fails_leaves_what_came_before(runs):
    """Exit 2; 500 elements, and the error in the dataset's own words."""
    code, _, stderr = runs["failing"]
    result = result_of(runs["failing"])

    assert code == 2
    assert elements(result) == 500
    assert result["error"]["type"] == "InvalidArgumentError"
    assert result["error"]["element"] == 500
    assert "boom" in result["error"]["message"]
    assert "infeed queue" not in result["error"]["message"]
    assert "error: the dataset failed at element 500" in stderr


@pytest.mark.process
def test_an_empty_dataset_measures_nothing(runs):
    """Exit 4, as without a device, and no links."""
    assert runs["empty"][0] == 4
    assert result_of(runs["empty"])["links"] is None


@pytest.mark.process
def test_a_dtype_that_feeds_do_not_carry_is_refused_with_the_edit(runs):
    """Exit 2, nothing on stdout, and the cast to write."""
    code, stdout, stderr = runs["wide"]

    assert (code, stdout) == (2, "")
    assert "the element is int64" in stderr
    assert ".map(lambda x: tf.cast(x, tf.int32))" in " ".join(stderr.split())


@pytest.mark.process
def test_ctrl_c_gives_the_partial_result(runs):
    """Exit 130 while the generator sleeps; what was there before is in the JSON."""
    code, _, stderr = runs["slow"]
    result = result_of(runs["slow"])

    assert code == 130
    assert 1 <= elements(result) <= 50
    assert "interrupted" in {warning["code"] for warning in result["warnings"]}
    assert result["links"]["dataset"] is None
    assert "Traceback" not in stderr


def spec(*sizes, dtype=tf.float32):
    return tf.TensorSpec(sizes, dtype)


@pytest.mark.parametrize(
    ("structure", "edit"),
    [
        (spec(2, dtype=tf.int64), ".map(lambda x: tf.cast(x, tf.int32))"),
        (
            (spec(2), spec(2, dtype=tf.float64)),
            ".map(lambda x0, x1: (x0, tf.cast(x1, tf.float32)))",
        ),
        ((spec(2, dtype=tf.int64),), ".map(lambda x0: (tf.cast(x0, tf.int32),))"),
        (
            {"a": spec(2), "b": spec(2, dtype=tf.int16)},
            ".map(lambda x: {**x, 'b': tf.cast(x['b'], tf.int32)})",
        ),
        (({"a": spec(2, dtype=tf.int64)}, spec(2)), "tf.cast(component, tf.int32)"),
        ((spec(None, 3), spec(3)), ".batch(N, drop_remainder=True)"),
        (spec(4, None), "padded_shapes"),
        (spec(4, 0), "no dimension of size 0"),
        (spec(2, dtype=tf.string), "decode it"),
        (tf.RaggedTensorSpec([2, None]), "to_tensor"),
    ],
    ids=str,
)
def test_what_a_feed_does_not_carry_is_refused_with_the_edit(structure, edit):
    """Each refusal names the component and says what to write."""
    with pytest.raises(UnsupportedElementError) as caught:
        check_feedable(structure)

    assert edit in str(caught.value)


@pytest.mark.parametrize("names", ["x0, x1", "x"])
def test_the_edit_that_is_proposed_helps(names):
    """Applied as it stands it makes a dataset that can be fed."""
    wide, narrow = tf.zeros([3], tf.int64), tf.zeros([3])
    element = (wide, narrow) if names == "x0, x1" else {"a": wide, "b": narrow}
    dataset = tf.data.Dataset.from_tensors(element)
    with pytest.raises(UnsupportedElementError) as caught:
        check_feedable(dataset.element_spec)

    edit = str(caught.value).split("`")[1]
    mended = eval(f"dataset{edit}", {"dataset": dataset, "tf": tf})

    assert len(check_feedable(mended.element_spec)) == 2


@pytest.mark.parametrize(
    "dtype", ["int32", "float32", "float16", "bool", "int8", "uint8"]
)
def test_every_dtype_that_feeds_carry_is_measured(dtype):
    """Also nested, and as a scalar: three elements in, three counted."""
    component = tf.zeros([], dtype)
    dataset = tf.data.Dataset.from_tensors((component, {"a": (component,)})).repeat(3)

    result = measure_through(dataset, Settings(seconds=0.2))

    assert result.elements == 3
    assert result.dataset["bytes_per_element"] == 2 * tf.as_dtype(dtype).size


def test_epochs_of_a_fixed_number_of_elements_are_exact():
    """3 epochs of 100: no more are taken, and each entry has its 100."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([])).repeat()

    result = measure_through(dataset, Settings(epochs=3, elements=100))

    assert [epoch["elements_processed"] for epoch in result.epochs] == [100] * 3


def test_what_the_device_logs_is_as_before():
    """The measurement is quiet about its IPU, and programs after it are not."""
    logger = logging.getLogger("ipufeed")
    before = logger.level

    measure_through(tf.data.Dataset.from_tensors(tf.zeros([])))

    assert logger.level == before


def test_an_epoch_is_a_pass_if_passes_are_requested():
    """Each pass is a run of the program, and an entry."""
    dataset = tf.data.Dataset.range(40).map(lambda x: tf.cast(x, tf.int32))

    result = measure_through(dataset, Settings(passes=3))

    assert [epoch["elements_processed"] for epoch in result.epochs] == [40] * 3
    assert result.error is None


def test_the_dataset_alone_makes_the_same_passes():
    """A pipeline that is slow to start again is so alone, too."""
    begun = []

    def elements():
        begun.append(True)
        yield from range(5)

    dataset = tf.data.Dataset.from_generator(
        elements, output_signature=tf.TensorSpec([], tf.int32)
    )

    alone = measure_alone(dataset, Settings(passes=3))

    assert alone.elements == 14  # from the first of 15 on
    assert len(begun) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(memcpy=False), "leave out --no-memcpy"),
        (Settings(passes=2), "`passes` needs a dataset that ends"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    """Before anything runs."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([])).repeat()

    with pytest.raises(ValueError, match=message):
        measure_through(dataset, settings)


def test_a_dataset_of_a_graph_is_refused():
    """With the remedy: the command without --through takes it."""
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensors(tf.zeros([]))

        with pytest.raises(ValueError, match=r"or measure it without\s+--through"):
            measure_through(dataset)
