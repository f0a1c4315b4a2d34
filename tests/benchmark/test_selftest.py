"""What the self-test promises: it passes where all is right, and no lie gets through."""

import json
import sys
import time
from dataclasses import replace

import children
import numpy as np
import pytest

from ipufeed.benchmark import selftest, with_stages
from ipufeed.benchmark.selftest import check, plain, planted, stages, table, through
from ipufeed.benchmark.selftest.check import Check, Row, about, exact

LIMIT_S = 500.0


def failed(rows):
    return [row.what.strip() for row in rows if not row.passed]


def test_a_number_passes_within_what_is_allowed():
    """Both ends included; None and NaN are within nothing."""
    for measured, passes in (
        (93.0, True),
        (107.0, True),
        (92.9, False),
        (107.1, False),
    ):
        assert about("rate", "/s", 100, measured, 0.93, 1.07).passed == passes
    assert not about("rate", "/s", 100, None, 0.93, 1.07).passed
    assert not about("rate", "/s", 100, float("nan"), 0.93, 1.07).passed


def test_a_check_that_fails_once_is_made_again_with_a_note():
    """And not a third time."""
    attempts = []

    def rows(quick):
        attempts.append(quick)
        return [exact("lucky", 2, len(attempts))]

    (row,) = Check("moody", rows).run(True)
    assert row.passed
    assert row.repeated
    assert attempts == [True, True]


@pytest.mark.parametrize(
    ("rates", "attempts", "passes"),
    [
        ([90.0, 91.0, 95.0], 3, True),
        ([95.0, 90.0, 91.0], 3, True),
        ([90.0, 91.0, None, 80.0, 94.0], 5, True),
        ([90.0] * 10, 10, False),
        ([110.0] * 3, 3, False),
    ],
)
def test_a_rate_is_the_best_of_three_or_of_more_while_it_is_too_low(
    monkeypatch, rates, attempts, passes
):
    """Load makes a rate lower: one that is too high is not measured until it is lower."""
    left = list(rates)
    monkeypatch.setattr(plain, "measure", lambda *_: left.pop(0))
    monkeypatch.setattr(plain, "_rate", lambda rate: rate)
    monkeypatch.setattr(planted, "true_period", lambda *_: 0.01)
    (row,) = plain.planted_rate(10, True)

    assert (len(rates) - len(left), row.passed) == (attempts, passes)


def test_a_check_that_raises_is_a_failure():
    """With the error where the measured value would stand."""
    (row,) = Check("broken", lambda quick: 1 / 0).run(False)

    assert not row.passed
    assert row.measured == "ZeroDivisionError: division by zero"
    assert "division by zero" in table.text_of(row)


def test_the_table_fits_80_columns(monkeypatch):
    """Whatever was measured, however long."""
    monkeypatch.setattr("ipufeed.render.terminal.columns", lambda stream: 80)
    rows = [
        about("rate, 5 ms per element", "/s", 197.123456, 196.98765, 0.93, 1.07),
        exact(
            "of a name that goes on and on and on", "InvalidArgumentError", "It " * 99
        ),
        Row("records: time with skip()", "µs", 1.5, 1.5, (0.0, float("inf")), True),
    ]
    lines = [table.HEAD, *"\n".join(map(table.text_of, rows)).splitlines()]

    assert max(map(len, lines)) < 80
    assert lines[1].endswith("pass")
    assert "FAIL" in lines[2]
    assert lines[-1].endswith("pass*")


def test_counts_and_errors_are_right_here():
    """Exact answers: they hold on any machine."""
    assert failed(plain.counts(True) + plain.errors(True)) == []


def test_a_counter_that_loses_an_element_is_found(monkeypatch):
    """One in a hundred is enough."""
    from ipufeed.benchmark.measuring import measure as measurement

    honest = measurement.run_measurement

    def lossy(*arguments, **named):
        raw, interruption = honest(*arguments, **named)
        raw.epochs[:, 0] -= raw.epochs[:, 0] // 100
        return raw, interruption

    monkeypatch.setattr(measurement, "run_measurement", lossy)

    assert "ends early: elements" in failed(plain.counts(True))


def test_a_tool_that_counts_one_batch_twice_is_found(monkeypatch):
    """Of a single element it would make two."""
    from ipufeed.benchmark.measuring import measure as measurement

    honest = measurement.run_measurement

    def doubled(*arguments, **named):
        raw, interruption = honest(*arguments, **named)
        raw.epochs[:1, 0] += 1
        return raw, interruption

    monkeypatch.setattr(measurement, "run_measurement", doubled)

    assert "one element: elements" in failed(plain.counts(True))


@pytest.mark.measured
def test_a_rate_that_is_a_fifth_too_high_is_found(monkeypatch):
    """As of a clock that runs slow."""
    from ipufeed.benchmark.measuring import measure as measurement

    honest = measurement.run_measurement

    def hasty(*arguments, **named):
        raw, interruption = honest(*arguments, **named)
        stamps = raw.stamps
        stamps[:] = stamps[:1] + ((stamps - stamps[:1]) / 1.2).astype(np.int64)
        return raw, interruption

    monkeypatch.setattr(measurement, "run_measurement", hasty)

    # A machine that is a sixth too slow during the check hides it.
    assert failed(plain.planted_rate(5, True)) == ["rate, 5 ms per element"]


@pytest.mark.measured
def test_a_tool_that_skips_records_is_found(monkeypatch):
    """What skip() takes for a record is far below what it takes to read one."""

    def skipping(files, settings=None, **named):
        start = time.perf_counter()
        next(iter(files.skip(199)))
        seconds = time.perf_counter() - start
        epoch = {"total_bytes_processed": 4 * 200 * planted.RECORD_BYTES}
        steady = {"elements_per_second": 10 * 200 / seconds}
        return type("Skipped", (), {"epochs": [epoch], "steady": steady})

    monkeypatch.setattr(plain, "measure", skipping)

    assert "records: time of each" in failed(plain.records(True))


def test_a_harness_inside_the_sum_is_found(monkeypatch):
    """An AU of 82 % with data that is always there."""
    honest = through.run

    def counting_itself(*arguments):
        device = honest(*arguments)
        return {**device, "au": device["au"] * 0.82}

    monkeypatch.setattr(through, "run", counting_itself)

    assert "AU, free source" in failed(through.free_source(True))


@pytest.mark.measured
def test_a_slow_stage_is_found_wherever_it_stands():
    """By name and by share, at each place."""
    assert failed(stages.stages(True)) == []


@pytest.mark.measured
def test_a_tool_that_names_the_wrong_stage_is_found(monkeypatch):
    """As one that checks a stage's place, not its time."""

    def last_first(result, dataset):
        honest = with_stages(result, dataset)
        return replace(honest, stages=honest.stages[::-1])

    monkeypatch.setattr(stages, "with_stages", last_first)

    assert failed(stages._slowest({"decode": 4.0, "augment": 1.0}, "decode", True)) == [
        "slowest of 2, at place 1",
        "its share",
    ]


@pytest.mark.process
def test_the_command_proves_it_in_json_and_a_table():
    """Stdout is strict JSON of all rows; stderr has one line for each."""
    done = children.run(
        [
            *(sys.executable, "-m", "ipufeed.benchmark", "selftest", "--quick"),
            *("--only", "counts", "--only", "errors"),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    outcome = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert outcome["passed"] is True
    assert len(outcome["checks"]) == 10
    assert all(row["passed"] for row in outcome["checks"])
    assert "All 10 passed." in done.stderr
    rows = [line for line in done.stderr.splitlines() if line[:8] != "warning:"]
    assert max(map(len, rows)) < 80


def test_a_failure_is_exit_code_1(monkeypatch, capfd):
    """With the row's name at the end of the table."""
    monkeypatch.setattr(plain, "errors", lambda quick: [exact("planted", 1, 2)])
    import os

    monkeypatch.setattr(selftest, "take_stdout", lambda: os.dup(1))
    monkeypatch.setattr(selftest, "Interrupts", Quiet)

    assert selftest.main(["--only", "errors"]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out)["passed"] is False
    assert "FAILED: planted." in err
    assert "a second time" in err


class Quiet:
    """Leaves the test's own signals alone."""

    code = 130

    def catch(self):
        pass

    ignore = catch


def test_a_busy_machine_is_worth_a_word():
    """From a quarter of the CPUs on."""
    assert selftest.load_notes(0.4, 2) == []
    assert selftest.load_notes(None, 2) == []
    assert "1.5 of 2 CPUs busy" in selftest.load_notes(1.5, 2)[0]


@pytest.mark.process
def test_a_file_of_that_name_is_still_reached(tmp_path):
    """As ./selftest; the word alone is the command."""
    (tmp_path / "selftest").write_text("dataset = 3\n")
    done = children.run(
        [sys.executable, "-m", "ipufeed.benchmark", "./selftest"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 2
    assert "selftest" in done.stderr
    assert "expected" not in done.stderr


@pytest.mark.process
def test_help_is_there_without_tensorflow():
    """And says what the exit codes are."""
    done = children.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "ipufeed.benchmark"),
            *("selftest", "--help"),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )

    assert "exit codes: 0 all passed" in done.stdout
    assert "argparse" in done.stderr
    assert "tensorflow" not in done.stderr
    assert "numpy" not in done.stderr


def test_checks_are_known_by_name():
    """Each name of --only has one or more checks, in their own order."""
    found = selftest.checks(list(reversed(selftest.NAMES)))

    assert list(dict.fromkeys(each.name for each in found)) == list(selftest.NAMES)
    assert all(isinstance(each, check.Check) for each in found)
    assert len(selftest.checks(["rates"])) == len(plain.RATES_MS)
