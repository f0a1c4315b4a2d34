"""What the targets report: each measured as often as planned, and misses by how much."""

from dataclasses import replace

import pytest

from benchmarks.targets import __main__ as targets
from benchmarks.targets import claims, row, speed

REPORT = """<testsuites><testsuite>
<testcase classname="tests.benchmark.test_stages" name="test_slow[map]" time="1"/>
<testcase classname="tests.benchmark.test_stages" name="test_cut" time="1">
<failure message="no">no</failure></testcase>
<testcase classname="tests.benchmark.test_stages" name="test_gone" time="1">
<skipped message="no"/></testcase>
</testsuite></testsuites>"""


def test_each_claim_has_its_verdict():
    """A failure or an error is none; what was left out is not a claim."""
    assert claims.verdicts(REPORT) == {
        "tests/benchmark/test_stages.py::test_slow[map]": True,
        "tests/benchmark/test_stages.py::test_cut": False,
    }


def test_a_claim_that_never_held_is_a_gross_fault_and_one_that_once_did_is_not():
    """The latter has a row of its own all the same."""
    rounds = [
        {"test_a.py::moody": True, "test_a.py::wrong": False, "test_b.py::right": True},
        {"test_a.py::moody": False, "test_a.py::wrong": False},
    ]

    rows = {each.what: each for each in claims.rows_of(rounds)}

    assert list(rows) == [
        "test_a: claims held, of 2",
        "test_a: moody",
        "test_a: wrong",
        "test_b: claims held, of 1",
    ]
    assert rows["test_a: claims held, of 2"].values == (50.0, 0.0)
    assert [each for each in rows if targets.missed_twofold(rows[each])] == [
        "test_a: wrong"
    ]


@pytest.mark.parametrize(
    ("quick", "held", "rounds"),
    [
        (True, [True, True, True], 1),
        (True, [False, True, True], 2),
        (True, [False, False, False, False], 3),
        (False, [True] * 5, 5),
    ],
)
def test_quick_rounds_of_claims_are_of_those_that_have_not_held(
    monkeypatch, quick, held, rounds
):
    """Another claim holds; without --quick there are always five rounds, of all claims."""
    left = list(held)
    verdicts = []

    def run(names):
        of_all = {"test_a.py::moody": left.pop(0), "test_a.py::right": True}
        verdicts.append({name: of_all[name] for name in names or of_all})
        return verdicts[-1]

    monkeypatch.setattr(claims, "run", run)

    rows = claims.rows(quick)

    assert [len(each) for each in verdicts] == [2] + [1 if quick else 2] * (rounds - 1)
    assert rows == claims.rows_of(verdicts)


def test_a_round_is_of_the_named_claims_alone():
    """The names of a report are what pytest selects its tests by."""
    names = ["tests/benchmark/measuring/test_calibration.py::test_what_is_not_there"]

    with pytest.raises(RuntimeError, match=f"(?s)not found: .*{names[0]}"):
        claims.run(names)


@pytest.mark.parametrize(
    ("rounds", "code", "median"),
    [
        ([[0.2]], 0, None),
        ([[0.5]], 0, 0.5),
        ([[0.7], [0.7]], 1, 0.7),
        ([[0.7], [0.1]], 0, 0.4),
    ],
    ids=["held", "near", "far", "far, then held"],
)
def test_quick_measures_again_what_missed_twofold(
    monkeypatch, capsys, rounds, code, median
):
    """A miss is reported with its factor; only a twofold one of both rounds fails."""
    left = [row("the command's start", "at most", 0.3, "s", each) for each in rounds]

    def measured(name, quick):
        assert (name, quick) == ("command", True)
        return [left.pop(0)]

    monkeypatch.setattr(targets, "measured", measured)
    monkeypatch.setattr(
        "sys.argv", ["benchmarks.targets", "--quick", "--only", "command"]
    )

    assert targets.main() == code
    assert not left
    out = capsys.readouterr().out
    missed = median and f"missed {median / 0.3:.2f}-fold: the command's start"
    assert [each for each in out.splitlines() if "missed" in each] == (
        [missed] if missed else []
    )


def test_the_values_of_both_rounds_count():
    """Also where the machine was slow in one of them."""
    slow, fast = ([row("wake-up", "at most", 1.0, "us", each)] for each in ([9], [1.5]))

    (both,) = targets.merged(slow, fast)

    assert both.values == (9.0, 1.5)
    assert both.repeats == 2
    assert both.held is False
    assert targets.missed_by(both) == pytest.approx(5.25)
    assert not targets.missed_twofold(both)


@pytest.mark.parametrize(
    ("unit", "seconds", "missed"),
    [
        ("us", [0.04], True),
        ("us", [0.01, 0.02], True),
        ("us", [0.04, 0.12], False),
        ("us", [0.12, 0.04], False),
        ("x", [0.12], True),
        ("% of a core", [0.12], True),
    ],
    ids=["quick", "quicker", "slow after", "slow before", "ratio", "rate"],
)
def test_a_slow_machine_lends_its_factor_to_times_alone(unit, seconds, missed):
    """What missed fivefold is a gross fault on a machine of the usual speed."""
    rows = [row("wake-up", "at most", 1.0, unit, [5.0])]

    (found,) = speed.with_slack(rows, speed.slowness(seconds))

    assert targets.missed_twofold(found) is missed
    assert found.held is False


def test_a_row_keeps_a_slack_that_is_larger():
    """A module knows better by how much its own floor has grown."""
    known = replace(row("ring", "at most", 6.0, "ns", [50.0]), slack=4.5)

    (found,) = speed.with_slack([known], 3.0)

    assert found.slack == 4.5
