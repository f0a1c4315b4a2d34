"""What tests that are tried again rely on: nobody runs beside them."""

import threading

import alone
from helpers import DEADLOCK_S


def test_who_wants_all_waits_for_the_others_and_they_for_it(tmp_path):
    """Two processes, here two threads: the locks are those of their open files."""
    mine, others = alone.Shares(tmp_path), alone.Shares(tmp_path)
    order = []

    def again():
        with others.of_all():
            order.append("all")

    with mine.of_one():
        thread = threading.Thread(target=again)
        thread.start()
        thread.join(0.3)
        order.append("one")
    thread.join(DEADLOCK_S)
    with others.of_all():
        thread = threading.Thread(target=lambda: use(mine.of_one(), order, "one more"))
        thread.start()
        thread.join(0.3)
        order.append("all again")
    thread.join(DEADLOCK_S)

    assert order == ["one", "all", "all again", "one more"]


def test_shares_are_had_side_by_side(tmp_path):
    """Of any number of processes."""
    with alone.Shares(tmp_path).of_one(), alone.Shares(tmp_path).of_one():
        pass


def test_who_waits_too_long_goes_on(tmp_path, monkeypatch):
    """A test that hangs is ended by its own limit, and holds up no other."""
    monkeypatch.setattr(alone, "PATIENCE_S", 0.1)

    with alone.Shares(tmp_path).of_one(), alone.Shares(tmp_path).of_all():
        pass


def use(share, order, name):
    with share:
        order.append(name)
