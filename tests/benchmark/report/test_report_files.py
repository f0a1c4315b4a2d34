"""What the table and the trace of a run promise, and the command that makes them later."""

import gzip
import io
import itertools
import json

import pytest
from pyarrow import parquet
from results import EMPTY, FAILED, HOSTILE, OLD, ONE_ELEMENT, result_of

from ipufeed.benchmark.cli.main import main
from ipufeed.benchmark.measuring.recording import Recording
from ipufeed.benchmark.report.files import write_reports
from ipufeed.benchmark.report.parquet import parquet_bytes
from ipufeed.benchmark.report.trace import THREADS, trace_bytes
from ipufeed.executable.tracing.events import Event, Kind

RESULTS = {
    "whole": result_of(),
    "empty": EMPTY,
    "one element": ONE_ELEMENT,
    "failed": FAILED,
    "old": OLD,
    **{name: result_of(name=text) for name, text in HOSTILE.items()},
}


def event(kind, start_ns, **changes):
    """An event of 5 us, 3 us of it waiting."""
    whole = {
        "kind": kind,
        "ordinal": -1,
        "number": 0,
        "name": "",
        "start_ns": start_ns,
        "end_ns": start_ns + 5_000_000,
        "busy_ns": 2_000_000,
        "waited_ns": 3_000_000,
        "nbytes": 8,
        "count": 1,
        "thread": 0,
    }
    return Event(**{**whole, **changes})


def recorded(*events):
    """A recording that began 1 ms before the iterator was requested."""
    recording = Recording()
    recording.events = list(events)
    recording.begun_ns, recording.requested_ns = 10**9, 10**9 + 10**6
    return recording


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_the_table_has_the_series(result):
    """Read back by pyarrow it is what the JSON has, and says what it belongs to."""
    table = parquet.read_table(io.BytesIO(parquet_bytes(result)))

    series = result.get("series") or {}
    columns = table.to_pydict()
    starts = columns.pop("start")
    assert columns == (series or {name: [] for name in columns})
    assert len(starts) == len(series.get("part", []))
    if starts:
        assert str(starts[0]) == "2025-03-01 12:00:00+00:00"
        assert starts == sorted(starts)
    metadata = table.schema.metadata
    assert metadata[b"ipufeed.schema_version"] == b"1"
    assert json.loads(metadata[b"ipufeed.machine"]) == result["machine"]
    assert json.loads(metadata[b"ipufeed.settings"]) == result["settings"]
    name = result["dataset"]["name"].encode("utf-8", "replace")
    assert metadata[b"ipufeed.dataset"] == name


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_trace_keeps_the_rules_of_its_format(result):
    """Each event has its phase, process, row and time; slices do not overlap in a row."""
    feeder, consumer = event(Kind.FEEDER, 2 * 10**9), event(Kind.CONSUMER, 2 * 10**9)

    trace = json.loads(trace_bytes(result, recorded(feeder, consumer), zipped=False))

    rows = {}
    for each in trace["traceEvents"]:
        assert each["ph"] in "MXC"
        assert isinstance(each["pid"], int)
        assert isinstance(each["tid"], int)
        assert isinstance(each["name"], str)
        if each["ph"] != "M":
            assert each["ts"] >= 0
        if each["ph"] == "X":
            assert each["dur"] >= 0
            rows.setdefault((each["pid"], each["tid"]), []).append(
                (each["ts"], each["ts"] + each["dur"])
            )
        if each["ph"] == "C":
            assert list(each["args"]) == ["value"]
    for slices in rows.values():
        slices.sort()
        for (_, end), (begin, _) in itertools.pairwise(slices):
            assert end <= begin + 1e-3


def test_a_trace_has_a_row_for_each_thread_and_counters():
    """Waits come before the consumer's work, and after the feeder's."""
    feeder, consumer = event(Kind.FEEDER, 2 * 10**9), event(Kind.CONSUMER, 2 * 10**9)

    trace = json.loads(
        trace_bytes(result_of(), recorded(feeder, consumer), zipped=False)
    )

    events = trace["traceEvents"]
    rows = {
        (each["pid"], each["tid"]): each["args"]["name"]
        for each in events
        if each["name"] == "thread_name"
    }
    named = {rows.get((each["pid"], each["tid"]), "") for each in events}
    assert {"parts of the run", "waits", "feeder", "consumer"} <= named
    assert {each["name"] for each in events if each["ph"] == "C"} == {
        "elements per second",
        "queue depth",
        "starved [%]",
        "blocked [%]",
    }
    slices = [
        (rows[each["pid"], each["tid"]], each["name"], each["ts"], each["dur"])
        for each in events
        if each["pid"] == THREADS and each["ph"] == "X"
    ]
    assert slices == [
        ("feeder", "busy", 1_000_000.0, 2000.0),
        ("feeder", "blocked: infeed is full", 1_002_000.0, 3000.0),
        ("consumer", "takes an element", 1_003_000.0, 2000.0),
        ("consumer", "starved: waits for the dataset", 1_000_000.0, 3000.0),
    ]


def test_parts_of_the_run_are_where_the_series_has_them():
    """The series begins when the iterator was requested, the trace a moment before."""
    result = result_of()

    trace = json.loads(trace_bytes(result, recorded(), zipped=False))

    first, second = [each for each in trace["traceEvents"] if each["ph"] == "X"][:2]
    assert (first["name"], first["ts"]) == ("start-up", 1000.0)
    assert second["name"] == "fill"
    start_up = result["series"]["seconds"][0]
    assert second["ts"] == pytest.approx(1000 + start_up * 1e6)


def test_a_run_through_the_device_has_the_devices_rows():
    """As a trace of any program has them."""
    result = result_of(links={"slowest": "dataset"})
    transfer = event(Kind.HOST_TO_DEVICE, 2 * 10**9, ordinal=0, name="images")

    trace = json.loads(trace_bytes(result, recorded(transfer), zipped=False))

    rows = [
        each["args"]["name"]
        for each in trace["traceEvents"]
        if each["name"] == "thread_name"
    ]
    assert "infeed images: IPU 0" in rows


def test_a_recording_during_another_one_is_refused():
    """A process has one recorder; the message says what may have it."""
    with Recording(), pytest.raises(ValueError, match="unset PVTI_OPTIONS"):
        Recording().__enter__()


def test_a_zipped_trace_is_the_same_each_time():
    """It can be compared, and holds what the plain one holds."""
    result = result_of()

    zipped = trace_bytes(result, None, zipped=True)

    assert gzip.decompress(zipped) == trace_bytes(result, None, zipped=False)
    assert zipped == trace_bytes(result, None, zipped=True)


def test_a_report_that_cannot_be_written_does_not_keep_the_others_from_it(tmp_path):
    """Each failure is reported; what stood there before still does."""
    (tmp_path / "folder").mkdir()
    asked = {
        "html": str(tmp_path / "folder"),
        "parquet": str(tmp_path / "no" / "p"),
        "trace": str(tmp_path / "trace.json"),
    }

    failures = write_reports(result_of(), asked)

    assert len(failures) == 2
    assert all(str(tmp_path) in failure for failure in failures)
    json.loads((tmp_path / "trace.json").read_text())


def test_a_stored_result_gives_all_reports(tmp_path, monkeypatch):
    """`report result.json`, without measuring anything."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "result.json").write_text(json.dumps(result_of()))

    names = {"--html": "a.html", "--parquet": "a.parquet", "--trace": "a.gz"}
    code = main(["report", "result.json", *sum(names.items(), ())])

    assert code == 0
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert parquet.read_table("a.parquet").num_rows > 100
    assert json.loads(gzip.decompress((tmp_path / "a.gz").read_bytes()))["traceEvents"]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, "--html a.html", "cannot be read: No such file"),
        ("{", "--html a.html", "must be the JSON of one result"),
        ("[" * 100_000, "--html a.html", "must be the JSON of one result"),
        ('"\xff', "--html a.html", "cannot be read: it is not text"),
        ("[1]", "--html a.html", "must be a result of `python -m ipufeed.benchmark`"),
        ('{"epochs": []}', "--html a.html", "Give a file that --json has written"),
        ('{"schema_version": 1}', "", "give --html FILE"),
        ('{"schema_version": 1}', "--html no/a.html", "in a folder that exists"),
        ("{}", "--html result.json", "the result and --html must be different files"),
    ],
    ids=[
        *("missing", "half", "deep", "bytes", "a list", "other", "nothing"),
        *("no folder", "itself"),
    ],
)
def test_what_is_not_a_result_is_refused(
    tmp_path, monkeypatch, capsys, text, arguments, words
):
    """Exit code 2, with what must be what; nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "result.json").write_text(text, encoding="latin-1")

    with pytest.raises(SystemExit) as error:
        main(["report", "result.json", *arguments.split()])

    assert error.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert {path.name for path in tmp_path.iterdir()} <= {"result.json"}
