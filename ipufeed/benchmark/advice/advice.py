"""What to change about a pipeline: an edit as its author would write it, and a rate.

Rules (rules.py) propose; here is what a proposal is, and which of them are worth
saying. A pipeline with nothing wrong gets no advice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.graph.step_functions import runs_python

if TYPE_CHECKING:
    from ipufeed.benchmark.stages.explain import Explanation, Stage

# A gain below this is not worth an edit, and hard to distinguish from the noise.
LEAST_GAIN = 1.1
# A stage with less of the time that matters is not what holds a pipeline back.
LEAST_SHARE = 0.15
MOST_ADVICE = 3
# With this much of a CPU idle, functions that compute do so for more than this share of
# their time; else they also wait for a CPU.
IDLE_CPUS = 0.25
COMPUTING_SHARE, CROWDED_COMPUTING_SHARE = 0.5, 0.3

Edit = Callable[[Any, str], None]


@dataclass
class Advice:
    """One edit.

    Attributes:
        code: The rule's.
        stage: Name of the stage that it is about.
        node: That stage in the rewritten graph.
        text: The edit in words.
        gain: Predicted rate over the measured one; None where none can be predicted.
        edit: Makes it, in the graph as written; None where that takes a human.
        pool: Threads of options.threading.private_threadpool_size, if that is (part of)
            the edit.
        predicted: Elements per second.
        measured: Elements per second with the edit, from --verify; else None.
        measured_gain: Its ratio to the rate without, measured alternately with it.
        held: Whether the gain was there; None if it was not tried.
    """

    code: str
    stage: str
    node: str
    text: str
    gain: float | None = None
    edit: Edit | None = None
    pool: int | None = None
    predicted: float | None = None
    measured: float | None = None
    measured_gain: float | None = None
    held: bool | None = None
    note: str | None = None

    def row(self) -> dict[str, Any]:
        """For the JSON."""
        return {
            "code": self.code,
            "stage": self.stage,
            "text": self.text,
            "predicted_elements_per_second": self.predicted,
            "predicted_gain": self.gain,
            "measured_elements_per_second": self.measured,
            "measured_gain": self.measured_gain,
            "held": self.held,
            "note": self.note,
        }


@dataclass(frozen=True)
class Case:
    """What the rules look at.

    Attributes:
        explanation: The stages and the model.
        usable_cpus: For this process.
        memory_available: Bytes.
        startup_seconds: Until the first element; None if unknown.
        memcpy_share: Of the time that the copies took; None if unknown.
    """

    explanation: Explanation
    usable_cpus: int
    memory_available: int | None = None
    startup_seconds: float | None = None
    memcpy_share: float | None = None

    def step(self, stage: Stage) -> Step:
        """The step of a stage."""
        return next(s for s in self.explanation.graph.steps if s.node == stage.node)

    def important(self) -> list[Stage]:
        """The stages that matter."""
        return [s for s in self.explanation.stages if s.share >= LEAST_SHARE]

    def elements_of_source(self, inputs: tuple[str, ...]) -> int | None:
        """How many elements a step's only input is known to hold."""
        graph = self.explanation.graph
        if len(inputs) != 1 or (spec := graph.spec_of(inputs[0])) is None:
            return None
        try:
            count = int(graph.dataset(graph.graph, inputs[0], spec).cardinality())
        except Exception:  # a source that does not know it without reading
            return None
        return count if count >= 0 else None

    def readers(self, node: str) -> list[Step]:
        """The steps that read a step's elements."""
        return [s for s in self.explanation.graph.steps if node in s.inputs]

    def gain(self, code_gain: float) -> float | None:
        """A gain that is worth it, or None."""
        return code_gain if code_gain >= LEAST_GAIN else None

    def workers(self) -> float:
        """As many as AUTOTUNE would use at most."""
        return float(max(1, self.usable_cpus))

    def computes(self, stage: Stage) -> bool:
        """Whether a stage's functions compute more than they wait.

        Where all CPUs are taken, a function that only computes waits for one, too. Calls
        in Python wait for each other: together they compute at most all of the time.
        """
        model = self.explanation.model
        least = COMPUTING_SHARE if model.idle >= IDLE_CPUS else CROWDED_COMPUTING_SHARE
        seconds = stage.seconds_per_element
        if runs_python(self.explanation.graph.graph, self.step(stage)):
            seconds = min(seconds, model.period)
        return stage.cpu_seconds_per_element > least * max(seconds, 1e-9)
