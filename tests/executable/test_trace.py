"""What a trace promises: what happened, in rows that a viewer can draw."""

import itertools
import json
import os
import sys
from collections import Counter, defaultdict

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, ROOT
from report_programs import on_ipu

from ipufeed import executable
from ipufeed.device.program import loops
from ipufeed.executable.tracing import recorder
from ipufeed.executable.tracing.events import Kind
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue

pytestmark = pytest.mark.usefixtures("clean_system")


def numbers():
    return tf.data.Dataset.range(10**9).map(lambda n: tf.cast(n, tf.float32))


def run_loop(times):
    """A loop with an infeed and an outfeed."""
    infeed = IPUInfeedQueue(numbers())
    outfeed = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    _ = infeed.initializer

    def traced_loop(n):
        return loops.repeat(n, lambda t, x: (t + x, outfeed.enqueue(x)), [0.0], infeed)

    on_ipu(traced_loop, tf.constant(times))
    _ = infeed.deleter
    return infeed, outfeed


def slices(content):
    """Row name -> slices."""
    rows = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in content["traceEvents"]
        if event["name"] == "thread_name"
    }
    found = defaultdict(list)
    for event in content["traceEvents"]:
        if event["ph"] != "M":
            found[rows[event["pid"], event["tid"]]].append(event)
    return found


def test_a_loop_has_its_events_in_rows(tmp_path):
    """Compile, load and execute; one row for each IPU and side of a feed."""
    path = tmp_path / "trace.json"

    with executable.trace(path):
        run_loop(5)

    rows = slices(json.loads(path.read_text()))
    (compiling,) = [row for row in rows if row.startswith("compile")]
    names = [event["name"] for event in rows[compiling]]
    assert names[:3] == ["COMPILE_BEGIN", "COMPILE", "COMPILE_END"]
    on_device = Counter(event["name"] for event in rows["IPU 0"])
    assert on_device == {"LOAD_ENGINE": 1, "EXECUTE": 1}
    (execute,) = [each for each in rows["IPU 0"] if each["name"] == "EXECUTE"]
    assert execute["args"]["program"] == "traced_loop"
    (taken,) = [row for row in rows if row.startswith("infeed") and "IPU 0" in row]
    (given,) = [row for row in rows if row.startswith("outfeed")]
    assert any(row.endswith(": feeder") for row in rows)
    for row, name in (
        (taken, "HOST_TO_DEVICE_TRANSFER"),
        (given, "DEVICE_TO_HOST_TRANSFER"),
    ):
        transfers = [event for event in rows[row] if event["name"] == name]
        assert [event["args"] for event in transfers] == [{"bytes": 4, "count": 1}] * 5
        for event in transfers:
            assert event["ts"] >= execute["ts"]
            assert event["ts"] + event["dur"] <= execute["ts"] + execute["dur"]


def test_slices_of_a_row_do_not_overlap(tmp_path):
    """A viewer nests what overlaps, and would show what is not so."""
    path = tmp_path / "trace.json"

    with executable.trace(path, events=256):
        run_loop(20_000)

    for row, events in slices(json.loads(path.read_text())).items():
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X")
        for (_, end), (start, _) in itertools.pairwise(spans):
            assert start >= end - 1e-3, row


@pytest.mark.long
def test_a_full_buffer_merges_and_loses_no_count():
    """Every transfer is in some event, or is counted as dropped."""
    recorder.start(events=64)
    run_loop(50_000)
    events, dropped = recorder.stop()

    kinds = Counter()
    for event in events:
        kinds[event.kind] += event.count
    lost = 2 * 50_000 - kinds[Kind.HOST_TO_DEVICE] - kinds[Kind.DEVICE_TO_HOST]
    assert 0 <= lost <= dropped
    assert len(events) <= 64 * (1 + max(event.thread for event in events))
    assert max(event.count for event in events) > 1


def test_there_is_one_trace_at_a_time(tmp_path):
    """The inner one is refused, and the outer one goes on."""
    with executable.trace(tmp_path / "outer.json"):
        with (
            pytest.raises(RuntimeError, match="already"),
            executable.trace(tmp_path / "inner.json"),
        ):
            pass
        on_ipu(lambda x: x * 21.5, tf.ones([2]))

    content = json.loads((tmp_path / "outer.json").read_text())
    assert any(event["name"] == "EXECUTE" for event in content["traceEvents"])
    assert not (tmp_path / "inner.json").exists()


def test_a_trace_is_written_when_the_block_fails(tmp_path):
    """It shows what led to the error."""

    def failing():
        with executable.trace(tmp_path / "t.json"):
            on_ipu(lambda x: x * 22.5, tf.ones([2]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()

    content = json.loads((tmp_path / "t.json").read_text())
    assert any(event["name"] == "EXECUTE" for event in content["traceEvents"])


def test_nothing_is_recorded_outside_of_the_block(tmp_path):
    """Neither before it nor after the one before."""
    with executable.trace(tmp_path / "one.json"):
        on_ipu(lambda x: x * 23.5, tf.ones([2]))
    on_ipu(lambda x: x * 24.5, tf.ones([2]))

    with executable.trace(tmp_path / "two.json"):
        pass

    content = json.loads((tmp_path / "two.json").read_text())
    assert content["traceEvents"] == []


def test_bad_arguments_are_refused_before_anything_is_recorded(tmp_path):
    """With what must be what."""
    with (
        pytest.raises(ValueError, match="at least 64, got 3"),
        executable.trace(tmp_path / "t.json", events=3),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"below 2\*\*63, got 9223372036854775808"),
        executable.trace(tmp_path / "t.json", events=2**63),
    ):
        pass
    with (
        pytest.raises(FileNotFoundError, match="folder that exists"),
        executable.trace(tmp_path / "none" / "t.json"),
    ):
        pass
    with (
        pytest.raises(TypeError, match="`path` must be a str or a path, got int 3"),
        executable.trace(3),
    ):
        pass
    with executable.trace(tmp_path / "t.json"):
        pass


@pytest.mark.process
def test_the_environment_traces_a_whole_run(tmp_path):
    """PVTI_OPTIONS, as for the original; the file is there when the process has ended."""
    code = (
        "import ipufeed, tensorflow as tf\n"
        "with tf.device('/device:IPU:0'):\n"
        "    tf.function(lambda x: x * 25.5, jit_compile=True)(tf.ones([2]))\n"
    )
    options = json.dumps({"enable": "true", "directory": str(tmp_path / "t")})

    children.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=ROOT,
        timeout=DEADLOCK_S,
        env={**os.environ, "PVTI_OPTIONS": options},
    )

    (path,) = (tmp_path / "t").glob("tf_trace__*.json")
    content = json.loads(path.read_text())
    assert any(event["name"] == "EXECUTE" for event in content["traceEvents"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('{"enable": "yes"}', """`enable` must be "true" or "false", got 'yes'"""),
        ("[1]", "PVTI_OPTIONS must be a JSON object, got '[1]'"),
        ('{"enable": "false"}', ""),
    ],
)
def test_a_wrong_option_of_the_environment_is_a_warning(
    options, message, monkeypatch, caplog, tmp_path
):
    """The program runs, without a trace."""
    monkeypatch.setenv("PVTI_OPTIONS", options)
    recorder.follow_environment()
    assert message in caplog.text
    assert bool(caplog.text) == bool(message)
    with executable.trace(tmp_path / "t.json"):  # none is running
        pass
