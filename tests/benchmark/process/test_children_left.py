"""The processes that a loader leaves are named before Python waits for them."""

import sys
import types

from ipufeed.benchmark.process import interrupts


def child(pid, daemon):
    return types.SimpleNamespace(pid=pid, daemon=daemon)


def test_those_that_are_waited_for_are_named(monkeypatch, capsys):
    """Daemons are ended by Python."""
    children = [child(7, False), child(8, True), child(9, False)]
    multiprocessing = types.SimpleNamespace(active_children=lambda: children)
    monkeypatch.setitem(sys.modules, "multiprocessing", multiprocessing)

    interrupts._name_children()
    found = " ".join(capsys.readouterr().err.split())
    assert "waiting for 2 process(es) that the loader has started" in found
    assert ": 7, 9. Ctrl-C ends the wait" in found


def test_without_any_nothing_is_printed(monkeypatch, capsys):
    multiprocessing = types.SimpleNamespace(active_children=list)
    for module in (multiprocessing, None):
        monkeypatch.setitem(sys.modules, "multiprocessing", module)
        interrupts._name_children()
    assert capsys.readouterr().err == ""
