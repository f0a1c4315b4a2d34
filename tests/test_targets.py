"""What the targets report: each measured as often as planned, and misses by how much."""

import pytest

from benchmarks.targets import __main__ as targets
from benchmarks.targets import claims, row

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
        "test_stages: test_slow[map]": True,
        "test_stages: test_cut": False,
    }


def test_a_claim_that_never_held_is_a_gross_fault_and_one_that_once_did_is_not():
    """The latter has a row of its own all the same."""
    rounds = [
        {"test_a: moody": True, "test_a: wrong": False, "test_b: right": True},
        {"test_a: moody": False, "test_a: wrong": False, "test_b: right": True},
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
    ("values", "code"),
    [([0.2], 0), ([0.5], 0), ([0.7], 1)],
    ids=["held", "near", "far"],
)
def test_quick_measures_twice_whatever_came_first(monkeypatch, capsys, values, code):
    """A miss is reported with its factor; only a twofold one fails."""
    calls = []

    def measured(name, quick):
        assert name == "command"
        calls.append(quick)
        return [row("the command's start", "at most", 0.3, "s", values)]

    monkeypatch.setattr(targets, "measured", measured)
    monkeypatch.setattr(
        "sys.argv", ["benchmarks.targets", "--quick", "--only", "command"]
    )

    assert targets.main() == code
    assert calls == [True, True]
    out = capsys.readouterr().out
    factor = values[0] / 0.3
    missed = f"missed {factor:.2f}-fold: the command's start" if factor > 1 else ""
    assert missed in out
    assert ("missed" in out) == bool(missed)


def test_the_values_of_both_rounds_count():
    """Also where the machine was slow in one of them."""
    slow, fast = ([row("wake-up", "at most", 1.0, "us", each)] for each in ([9], [1.5]))

    (both,) = targets.merged(slow, fast)

    assert both.values == (9.0, 1.5)
    assert both.repeats == 2
    assert both.held is False
    assert targets.missed_by(both) == pytest.approx(5.25)
    assert not targets.missed_twofold(both)
