"""The model of the feed's hand-shakes: it holds, and every planted bug breaks it.

`spin` walks through all interleavings of models/feed.pml. What the model covers is in
models/README.md. A search that was cut short proves nothing and counts as a failure.
"""

import pytest
from spin import (
    LIVENESS,
    SAFETY,
    assert_refuted,
    needs_spin,
    planted_in,
)
from spin import assert_proven as assert_proven_in
from spin import verify as verify_model

FEWEST_STATES = 500_000  # the sound model has millions: fewer, and it stopped early

DEADLOCKS = (
    "NOTIFY_BEFORE_PUBLISH",
    "NOTIFY_BEFORE_RELEASE",
    "READER_NO_RECHECK",
    "WRITER_NO_RECHECK",
    "READER_IGNORES_CLOSE",
    "END_WITHOUT_NOTIFY",
    "CANCEL_ONLY_READER",
    "CANCEL_ONLY_WRITER",
    "READER_IGNORES_CANCEL",
    "WRITER_IGNORES_CANCEL",
    "READER_NO_ORDER_7",
    "WRITER_NO_ORDER_7",
    "WRITER_NO_ORDER_8",
    "READER_NO_ORDER_8",
)
NAPS = ("NAP_NEVER_ENDS", "PARKED_WOKEN_ONLY_IF_URGENT")
STOPS = ("IGNORES_STOP", "STOP_WITHOUT_WAKE", "WAKE_BEFORE_STOP")
WRONG_RESULTS = ("DRAINED_ORDER", "CLOSE_BEFORE_ERROR")
# One that is found soon is in every run; `nox -s soak` plants all.
IN_EACH_RUN = ("READER_NO_RECHECK",)
pytestmark = [pytest.mark.native, needs_spin]


def bugs(names):
    return [
        pytest.param(each, marks=() if each in IN_EACH_RUN else pytest.mark.soak)
        for each in names
    ]


def verify(folder, mode, *macros):
    planted = any(macro.startswith("PLANT_") for macro in macros)
    # A search that ends at a bug is short.
    optimisation = "-O0" if planted else "-O1"
    return verify_model(folder, "feed", mode, *macros, optimisation=optimisation)


def assert_proven(search):
    assert_proven_in(search, FEWEST_STATES)


@pytest.mark.long
@pytest.mark.parametrize(
    ("capacity", "polls"),
    [
        pytest.param(1, 1, id="capacity=1", marks=pytest.mark.soak),
        pytest.param(2, 0, id="capacity=2"),
        pytest.param(3, 0, id="capacity=3", marks=pytest.mark.soak),
    ],
)
def test_feed_is_safe_in_every_interleaving(tmp_path, capacity, polls):
    """No deadlock; each element once and in order; delivered + undelivered = pushed."""
    sizes = f"CAPACITY={capacity}", f"POLLS={polls}"

    assert_proven(verify(tmp_path, SAFETY, *sizes))


@pytest.mark.soak
def test_both_sides_finish_under_weak_fairness(tmp_path):
    """Whatever the third party does, the writer and the reader come to their end."""
    assert_proven(verify(tmp_path, LIVENESS, "POLLS=0"))


@pytest.mark.parametrize("stops", [1, 2], ids=["reader", "writer"])
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(SAFETY, id="safety"),
        pytest.param(LIVENESS, id="liveness", marks=pytest.mark.soak),
    ],
)
def test_a_stopped_program_returns_and_the_next_goes_on(tmp_path, stops, mode):
    """Whenever the stop comes; the feed stays open, and no element is lost."""
    search = verify(tmp_path, mode, f"STOPS={stops}", "POLLS=0")

    assert search.errors == 0, search.text
    assert search.complete, search.text


@pytest.mark.parametrize("stops", [1, 2], ids=["reader", "writer"])
@pytest.mark.parametrize("bug", bugs(STOPS))
def test_bug_in_stopping_is_a_deadlock(tmp_path, bug, stops):
    """A program that is never woken waits for a side that is silent."""
    search = verify(tmp_path, SAFETY, f"STOPS={stops}", "POLLS=0", f"PLANT_{bug}")

    assert_refuted(search, "invalid end state")


@pytest.mark.parametrize("bug", bugs(DEADLOCKS))
def test_bug_in_the_handshake_is_a_deadlock(tmp_path, bug):
    """A thread that never wakes is found as a state that no process can leave."""
    search = verify(tmp_path, SAFETY, f"PLANT_{bug}")

    assert_refuted(search, "invalid end state")


@pytest.mark.parametrize("bug", bugs(NAPS))
def test_bug_in_naps_is_a_deadlock(tmp_path, bug):
    """An element that waits for a slow writer's next one is never delivered."""
    search = verify(tmp_path, SAFETY, "CAPACITY=3", "POLLS=0", f"PLANT_{bug}")

    assert_refuted(search, "invalid end state")


@pytest.mark.parametrize("bug", bugs(WRONG_RESULTS))
def test_bug_at_the_end_is_a_wrong_result(tmp_path, bug):
    """A lost last element, or an error not yet written, breaks an assertion."""
    search = verify(tmp_path, SAFETY, f"PLANT_{bug}")

    assert_refuted(search, "assertion violated")


def test_liveness_finds_a_side_that_never_finishes(tmp_path):
    """The claim is not a decoration: a reader that ignores the end violates it."""
    search = verify(tmp_path, LIVENESS, "PLANT_READER_IGNORES_CLOSE")

    assert_refuted(search, "acceptance cycle")


def test_every_planted_bug_has_a_test():
    """The macros in the model and the bugs tested here are the same."""
    in_model = planted_in("feed")

    assert in_model == {*DEADLOCKS, *NAPS, *STOPS, *WRONG_RESULTS}
