"""The models above the feed: each holds, and every planted bug breaks it.

    program.pml        stop against waits that begin, feeds that register, the end
    replica_barrier.pml  replicas that compute, leave and are stopped
    rounds.pml         results that are made of a part of each replica
    result_queue.pml   results between the ring, the store and several readers
    direct_copy.pml    a ring's reader that offers its memory to the writer

models/README.md says what each covers and which line each planted bug removes.
"""

import dataclasses

import pytest
from spin import (
    LIVENESS,
    SAFETY,
    assert_proven,
    assert_refuted,
    needs_spin,
    planted_in,
    verify,
)

pytestmark = [pytest.mark.native, needs_spin, pytest.mark.long]

DEADLOCK = "invalid end state"
WRONG = "assertion violated"
MOST_STATES = 50_000


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with its parameters; `finds`: the planted bug and the verifier's words."""

    model: str
    macros: str = ""
    fewest_states: int = 0
    bug: str = ""
    words: str = ""

    def verify(self, folder, mode=SAFETY):
        bug = [f"PLANT_{self.bug}"] if self.bug else []
        return verify(folder, self.model, mode, *self.macros.split(), *bug)

    def __str__(self) -> str:
        """The test's id."""
        return "-".join([self.model, *self.macros.split(), *self.bug.split()])


SOUND = (
    Case("replica_barrier", "", 100_000),
    Case("replica_barrier", "RUNS=2 COLLECTIVES=1", 400_000),
    Case("replica_barrier", "MEMBERS=2 RUNS=2 REPORTS=1", 200_000),
    Case("replica_barrier", "STOPS=1", 500_000),
    Case("replica_barrier", "MEMBERS=2 RUNS=2 REPORTS=1 STOPS=1", 1_000_000),
    Case("result_queue", "READS=1", 200_000),
    Case("result_queue", "READERS=1 HELD=1", 200_000),
    Case("result_queue", "READERS=1", 15_000),
    Case("result_queue", "READERS=1 CAPACITY=2 ELEMENTS=4", 20_000),
    Case("result_queue", "READS=1 WAITS_FOR_ALL=1 LIMIT=1", 100_000),
    Case("result_queue", "READS=0", 200),
    Case("result_queue", "READS=0 WAITS_FOR_ALL=1 LIMIT=1 ELEMENTS=4", 500),
    Case("result_queue", "PUTS_BACK=1 READERS=1 READS=3 WAITS_FOR_ALL=1", 60_000),
    Case("result_queue", "PUTS_BACK=1 READERS=1 READS=3 CANCELS=1", 400_000),
    Case("result_queue", "READERS=1 CANCELS=1 LIMIT=1 ELEMENTS=4", 200_000),
    Case("direct_copy", "", 4_000),
    Case("direct_copy", "STOPS=1", 12_000),
    Case("direct_copy", "STOPS=1 CAPACITY=1", 8_000),
    Case("direct_copy", "STOPS=1 CAPACITY=3 ELEMENTS=6", 12_000),
    Case("rounds", "", 50_000),
    Case("rounds", "OPEN=2", 50_000),
    Case("rounds", "REPLICAS=3 PARTS=2", 500_000),
    Case("rounds", "STOPS=1 REPORTS=1", 1_000_000),
    Case("rounds", "STOPS=2", 40_000),
    Case("rounds", "STOPS=2 REPLICAS=3 PARTS=2 OPEN=2", 500_000),
    Case("rounds", "STOPS=3", 200_000),
    Case("program", "", 10_000),
    Case("program", "INTERRUPTS=1 CANCELS=0", 8_000),
    Case("program", "INTERRUPTS=1", 80_000),
    Case("program", "THREADS=2 WAITS=1", 150_000),
    Case("program", "THREADS=2 WAITS=1 INTERRUPTS=1 CANCELS=0", 100_000),
)
LIVE = (
    Case("direct_copy", "", 4_000),
    Case("direct_copy", "STOPS=1", 12_000),
    Case("replica_barrier", "COLLECTIVES=1", 10_000),
    Case("replica_barrier", "MEMBERS=2 RUNS=2", 50_000),
    Case("replica_barrier", "MEMBERS=2 STOPS=1", 20_000),
    Case("result_queue", "READERS=1 READS=1 WAITS_FOR_ALL=1 LIMIT=1", 1_000),
    Case("result_queue", "READERS=1 READS=1 CANCELS=1 LIMIT=1", 1_000),
    Case("rounds", "", 50_000),
    Case("rounds", "STOPS=2", 40_000),
    Case("program", "", 10_000),
    Case("program", "INTERRUPTS=1 CANCELS=0", 8_000),
)


def planted(model, macros, words, *bugs):
    return [Case(model, macros, bug=bug, words=words) for bug in bugs]


PLANTED = (
    *planted(
        *("direct_copy", "", WRONG),
        *("ANY_OFFER", "MARK_BEFORE_COPY", "OFFER_BEFORE_WHERE"),
    ),
    *planted(
        *("direct_copy", "STOPS=1", WRONG),
        *("NO_RETRACT", "CLAIM_IS_NOT_AWAITED", "CLAIM_IN_TWO_STEPS"),
    ),
    *planted(
        "replica_barrier",
        "",
        DEADLOCK,
        "LEAVE_WITHOUT_NOTIFY",
        "UNLOCKED_LEAVE",
        "BEGIN_WITHOUT_NOTIFY",
        "NO_WAIT_FOR_LEAVING",
        "LAST_LEAVES_SILENTLY",
        "DONE_WITHOUT_NOTIFY",
        "BEHIND_GETS_NO_ERROR",
    ),
    *planted("replica_barrier", "", WRONG, "LEAVES_AFTER_WORK"),
    *planted("replica_barrier", "MEMBERS=2 RUNS=2", WRONG, "NO_RETRACT", "NOT_LEVEL"),
    *planted("replica_barrier", "STOPS=1", WRONG, "STOPPED_WHILE_WORKING"),
    *planted(
        "replica_barrier", "STOPS=1", DEADLOCK, "WAKE_WITHOUT_LOCK", "WAKE_BEFORE_STOP"
    ),
    *planted(
        "result_queue",
        "READS=1",
        DEADLOCK,
        "ROLE_WITHOUT_WAKE",
        "WAIT_IGNORES_END",
        "NEXT_KEEPS_ROLE",
    ),
    *planted(
        "result_queue",
        "",
        WRONG,
        "STORE_KEEPS_ROLE",
        "STORE_WITHOUT_ROLE",
        "STORE_OVERTAKES",
        "NEXT_IGNORES_STORE",
        "TAKE_KEEPS_BYTES",
    ),
    *planted(
        "result_queue",
        "READERS=1 HELD=1",
        DEADLOCK,
        "TAKER_WITHOUT_WAKE",
        "IGNORES_TAKER",
    ),
    *planted("result_queue", "WAITS_FOR_ALL=1 LIMIT=1", WRONG, "TAKE_ONLY_STORE"),
    *planted(
        "result_queue",
        "READS=0 WAITS_FOR_ALL=1 LIMIT=1 ELEMENTS=4",
        DEADLOCK,
        "IGNORES_LIFT",
        "LIFT_WITHOUT_WAKE",
    ),
    *planted(
        "result_queue",
        "READERS=1 CANCELS=1 LIMIT=1 ELEMENTS=4",
        DEADLOCK,
        "WRITER_IGNORES_CANCEL",
    ),
    *planted(
        "result_queue",
        "PUTS_BACK=1 READERS=1 READS=3 WAITS_FOR_ALL=1",
        WRONG,
        "PUT_BACK_BEHIND",
        "PUT_BACK_DROPS",
        "PUT_BACK_KEEPS_BYTES",
    ),
    *planted("rounds", "", DEADLOCK, "ROUND_WITHOUT_NOTIFY"),
    *planted(
        "rounds",
        "",
        WRONG,
        "LEFT_IS_NOT_CHECKED",
        "LEAVE_CHECKS_NOTHING",
        "MISSING_BEFORE_COPY",
        "UNLOCKED_LEAVE",
    ),
    *planted("rounds", "STOPS=1 REPORTS=1", DEADLOCK, "REPORT_WITH_LOCK"),
    *planted("rounds", "STOPS=1", DEADLOCK, "STOP_WITHOUT_WAKE", "WAKE_WITHOUT_LOCK"),
    *planted(
        "rounds", "STOPS=2", WRONG, "END_OF_DATASET_IS_A_STOP", "STOP_LOSES_RESULT"
    ),
    *planted("rounds", "STOPS=3", DEADLOCK, "IGNORES_CLOSE"),
    *planted(
        "program",
        "",
        DEADLOCK,
        "FLAG_AFTER_WAKE",
        "STOP_SKIPS_FEEDS",
        "STOP_SKIPS_WAKEABLES",
        "STOP_SKIPS_COMPUTE",
        "NO_LOOK_AFTER_PARKING",
        "REFUSAL_IS_IGNORED",
        "DEREGISTER_WITH_LOCK",
        "END_WITHOUT_NOTIFY",
    ),
    *planted(
        "program",
        "",
        WRONG,
        "STOP_WITHOUT_LOCK",
        "NO_DEREGISTER",
        "REMOVE_WITHOUT_LOCK",
        "IDLE_IGNORES_ENDING",
    ),
    *planted(
        "program",
        "INTERRUPTS=1 CANCELS=0",
        DEADLOCK,
        "STOPS_ARE_IGNORED",
        "SEES_STOPS_OF_NOW",
    ),
    *planted(
        "program",
        "INTERRUPTS=1 CANCELS=0",
        WRONG,
        "STOP_ALL_WITHOUT_LOCK",
        "ERASE_WITHOUT_LOCK",
    ),
)


def small(cases):
    """Searches of more states than a run has time for are left to `nox -s soak`."""
    return [
        pytest.param(
            each,
            id=str(each),
            marks=pytest.mark.soak if each.fewest_states > MOST_STATES else (),
        )
        for each in cases
    ]


def first_of_each(cases):
    """One planted bug of each model and kind is in every run."""
    kinds = [(each.model, each.words) for each in cases]
    return [
        pytest.param(
            each,
            id=str(each),
            marks=pytest.mark.soak if kind in kinds[:place] else (),
        )
        for place, (each, kind) in enumerate(zip(cases, kinds, strict=True))
    ]


@pytest.mark.parametrize("case", small(SOUND))
def test_model_is_safe_in_every_interleaving(tmp_path, case):
    """No deadlock, and every assertion of the model holds."""
    assert_proven(case.verify(tmp_path), case.fewest_states)


@pytest.mark.parametrize("case", small(LIVE))
def test_all_threads_finish_under_weak_fairness(tmp_path, case):
    """Each wait of a thread ends while the others take steps."""
    assert_proven(case.verify(tmp_path, LIVENESS), case.fewest_states)


@pytest.mark.parametrize("case", first_of_each(PLANTED))
def test_planted_bug_is_found(tmp_path, case):
    """The model without one line of the code deadlocks or breaks an assertion."""
    assert_refuted(case.verify(tmp_path), case.words)


@pytest.mark.parametrize(
    "model", ["direct_copy", "replica_barrier", "result_queue", "rounds", "program"]
)
def test_every_planted_bug_has_a_case(model):
    """The macros in the model and the bugs tested here are the same."""
    assert planted_in(model) == {case.bug for case in PLANTED if case.model == model}
