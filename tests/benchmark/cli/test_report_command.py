"""--parquet, --trace and --html as a user gives them: all of one run, however it ends."""

import gzip
import json
import signal

import pytest
from command_cases import READY, Case, execute
from helpers import module_runs
from pyarrow import parquet

from ipufeed.benchmark.cli import report

pytestmark = pytest.mark.process

ALL = "--html page.html --trace trace.json.gz --parquet windows.parquet"
SOURCE = f"""
READY = {READY!r}
import sys
import time
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

beat = tf.data.Dataset.range(1).repeat().apply(testing.sleep(2000))
images = beat.map(lambda i: tf.zeros([8, 4])).prefetch(2)
failing = beat.take(40).concatenate(
    tf.data.Dataset.range(1, 2).map(
        lambda i: i // tf.cast(tf.constant([0])[0], tf.int64)
    )
)
none = beat.take(0)


def reported():
    for i in range(10**6):
        if i == 50:
            print(READY, file=sys.stderr, flush=True)
        time.sleep(0.002)
        yield i


waiting = tf.data.Dataset.from_generator(
    reported, output_signature=tf.TensorSpec([], tf.int64)
)
"""
CASES = {
    "whole": (f"dataset.py:images --seconds 1 {ALL}", None),
    "device": (f"dataset.py:images --seconds 1 --through device {ALL}", None),
    "interrupted": (f"dataset.py:waiting --seconds 60 {ALL}", signal.SIGINT),
    "failing": (f"dataset.py:failing {ALL}", None),
    "none": (f"dataset.py:none {ALL}", None),
}
CODES = {"whole": 0, "device": 0, "interrupted": 130, "failing": 2, "none": 4}


def run(name, folder):
    arguments, interrupt = CASES[name]
    return execute(Case(arguments.split(), {"dataset.py": SOURCE}, interrupt), folder)


runs = module_runs(run, CASES)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_all_reports_are_of_the_run_that_the_json_is_of(runs, name):
    """Also of a run that was interrupted, failed, or had no element."""
    done = runs[name]
    assert done.code == CODES[name], done.stderr

    page = (done.folder / "page.html").read_text()
    trace = json.loads(gzip.decompress((done.folder / "trace.json.gz").read_bytes()))
    table = parquet.read_table(done.folder / "windows.parquet")

    series = done.result["series"] or {"elements": []}
    assert table["elements"].to_pylist() == series["elements"]
    assert sum(series["elements"]) == done.elements
    assert page.startswith("<!doctype html>")
    assert "dataset.py:" in page
    assert ("elements per second" in json.dumps(trace)) == (done.elements > 0)
    left = {path.name for path in done.folder.iterdir()} - {"tmp", "__pycache__"}
    assert left == {"dataset.py", "page.html", "trace.json.gz", "windows.parquet"}


def rows(done):
    """Slices of a trace by the name of their row."""
    trace = json.loads(gzip.decompress((done.folder / "trace.json.gz").read_bytes()))
    events = trace["traceEvents"]
    names = {
        (each["pid"], each["tid"]): each["args"]["name"]
        for each in events
        if each["name"] == "thread_name"
    }
    found = {}
    for each in events:
        if each["ph"] == "X":
            found.setdefault(names[each["pid"], each["tid"]], []).append(each)
    return found


def test_a_trace_has_each_element_of_feeder_and_consumer(runs):
    """Within the run, in the order in which they came."""
    done = runs["whole"]

    found = rows(done)

    taken = [e for e in found["consumer"] if e["name"] == "takes an element"]
    assert sum(e["args"]["count"] for e in taken) == done.elements
    assert sum(e["args"]["bytes"] for e in taken) == done.elements * 128
    parts = found["parts of the run"]
    begin = parts[0]["ts"]
    end = parts[-1]["ts"] + parts[-1]["dur"]
    assert begin <= taken[0]["ts"]
    assert taken[-1]["ts"] <= end + 1e5
    assert "starved: waits for the dataset" in {e["name"] for e in found["waits"]}
    assert [e["name"] for e in found["feeder"]].count("busy") >= done.elements


def test_a_trace_through_the_device_has_the_programs_rows(runs):
    """Feeder, transfers into the program, and results out of it."""
    names = " ".join(rows(runs["device"]))

    for words in ("feeder", "infeed", "outfeed", "IPU 0", "parts of the run"):
        assert words in names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--html no/page.html", "--html must be a file in a folder that exists"),
        ("--trace tmp/", "--trace must be a file in a folder that exists"),
        ("--parquet=", "--parquet must be the name of a file, got an empty one"),
        ("--html -", "--html must be a file: stdout is the JSON's"),
        ("--html /dev/stdout", "--html must be a file: stdout is the JSON's"),
        ("--json a --html ./a", "--html and --json must be different files, got"),
        ("--parquet a --trace a", "--parquet and --trace must be different files, got"),
        ("--json dataset.py", "the dataset's file and --json must be different files"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path, arguments, words
):
    """Exit code 2 at once, as for --json."""
    case = Case(["dataset.py", *arguments.split()], {"dataset.py": "1 / 0"}, None)

    done = execute(case, tmp_path / "run")

    assert done.code == 2
    assert words in done.words
    assert "ZeroDivisionError" not in done.stderr
    assert done.stdout == ""


def test_a_page_of_a_stored_result_can_go_to_stdout(runs, tmp_path, monkeypatch, capfd):
    """`-` does not name a file."""
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps(runs["none"].result))
    monkeypatch.chdir(tmp_path)

    code = report.main([str(stored), "--html", "-"])

    assert code == 0
    assert capfd.readouterr().out.startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["stored.json"]
