"""What is seen of a measurement while it runs, where no terminal shows a bar."""

from ipufeed.benchmark import Settings
from ipufeed.benchmark.cli import progress
from ipufeed.benchmark.cli.progress import ProgressBar
from ipufeed.benchmark.measuring.run import Progress


def output(monkeypatch, capsys, *calls, quiet=False):
    """Calls with (seconds, elements); what stderr then has."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = ProgressBar(Settings(), quiet)
    for seconds, elements in calls:
        now[0] = 100.0 + seconds
        bar(Progress(elements, 0, 0, int(now[0] * 1e9) if elements else 0))
    return capsys.readouterr().err


def test_a_first_element_that_does_not_come_is_reported_once(monkeypatch, capsys):
    """Ten seconds are worth a line in a log; no more come."""
    err = output(monkeypatch, capsys, (5, 0), (11, 0), (60, 0))

    assert err.splitlines() == [
        "no element after 11 s: waiting for the first one (Ctrl-C ends it)"
    ]


def test_nothing_is_reported_while_elements_come_or_in_quiet_runs(monkeypatch, capsys):
    """The line is about the first element alone."""
    assert output(monkeypatch, capsys, (5, 1), (30, 2)) == ""
    assert output(monkeypatch, capsys, (30, 0), quiet=True) == ""
