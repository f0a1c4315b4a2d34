"""Advice: an edit of a pipeline in words and in the graph, and the rate to expect.

rules.py has the rules and finds the advice that is worth giving. A pipeline without a
problem gets none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipufeed.benchmark.graph.pipeline_graph import Step
from ipufeed.benchmark.graph.step_functions import runs_python
from ipufeed.benchmark.result.sections import AdviceSection
from ipufeed.tf_types import GraphDef

if TYPE_CHECKING:
    from ipufeed.benchmark.stages.explain import Explanation, Stage

# A smaller gain is not worth an edit, and hard to distinguish from noise.
LEAST_GAIN = 1.1
# A stage with a smaller share is not a bottleneck.
LEAST_SHARE = 0.15
# With this much of a CPU idle, functions that compute use a CPU for more than the first
# fraction of their time; else for more than the second, since they also wait for a CPU.
IDLE_CPUS = 0.25
COMPUTING_FRACTION, CROWDED_COMPUTING_FRACTION = 0.5, 0.3
# One CPU, and what tf.data itself does for the calls.
ONE_CPU = 1.1

Edit = Callable[[GraphDef, str], None]


@dataclass
class Advice:
    """One edit of a pipeline.

    Attributes:
        code: Name of the rule.
        stage: Name of the stage.
        node: Node of the stage in the rewritten graph.
        text: The edit in words.
        gain: Predicted rate divided by the measured one; None without a prediction.
        edit: Makes the edit in the graph as written; None if only its author can.
        pool: New value of options.threading.private_threadpool_size, if the edit has one.
        predicted: Predicted elements per second.
        measured: Elements per second with the edit, from --verify; else None.
        measured_gain: The same divided by the rate without, measured alternately.
        held: Whether the gain was confirmed; None if it was not tried.
        note: Why it was not tried.
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

    def row(self) -> AdviceSection:
        """Returns the advice as the JSON holds it."""
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
    """The input of the rules.

    Attributes:
        explanation: The stages and the model.
        usable_cpus: CPUs that this process may use.
        memory_available: Bytes.
        startup_seconds: Seconds until the first element; None if unknown.
        memcpy_share: Fraction of the time that the copies took; None if unknown.
    """

    explanation: Explanation
    usable_cpus: int
    memory_available: int | None = None
    startup_seconds: float | None = None
    memcpy_share: float | None = None

    def advise(
        self,
        code: str,
        node: str,
        text: str,
        gain: float | None = None,
        edit: Edit | None = None,
        pool: int | None = None,
    ) -> Advice:
        """Returns advice about the stage of a node."""
        name = self.explanation.names[node]
        return Advice(code, name, node, text, gain, edit, pool)

    def step(self, stage: Stage) -> Step:
        """Returns the node of a stage, with its op and its inputs."""
        return next(s for s in self.explanation.graph.steps if s.node == stage.node)

    def important(self) -> list[Stage]:
        """Returns the stages with a fraction of at least LEAST_SHARE."""
        return [s for s in self.explanation.stages if s.share >= LEAST_SHARE]

    def elements_of_source(self, inputs: tuple[str, ...]) -> int | None:
        """Returns the number of elements of a stage's only input, if it is known."""
        graph = self.explanation.graph
        if len(inputs) != 1 or (spec := graph.spec_of(inputs[0])) is None:
            return None
        try:
            count = int(graph.dataset(graph.graph, inputs[0], spec).cardinality())
        except Exception:  # known only by reading the source
            return None
        return count if count >= 0 else None

    def readers(self, node: str) -> list[Step]:
        """Returns the stages that read a stage's elements."""
        return [s for s in self.explanation.graph.steps if node in s.inputs]

    def gain(self, gain: float) -> float | None:
        """Returns the gain, or None if it is less than LEAST_GAIN."""
        return gain if gain >= LEAST_GAIN else None

    def workers(self) -> float:
        """Returns the most workers that AUTOTUNE would use."""
        return float(max(1, self.usable_cpus))

    def computes(self, stage: Stage) -> bool:
        """Returns whether a stage's functions compute rather than wait.

        If all CPUs are busy, a function that only computes also waits for a CPU. Calls in
        Python wait for each other: together they compute at most all of the time.
        """
        model = self.explanation.model
        idle = model.idle >= IDLE_CPUS
        least = COMPUTING_FRACTION if idle else CROWDED_COMPUTING_FRACTION
        seconds = stage.seconds_per_element
        if runs_python(self.explanation.graph.graph, self.step(stage)):
            seconds = min(seconds, model.period)
        return stage.cpu_seconds_per_element > least * max(seconds, 1e-9)

    def shares_one_cpu(self, stage: Stage) -> bool:
        """Whether a stage's workers together use one CPU at most, though another is idle.

        So it is with calls that hold the GIL; those of NumPy, which release it for large
        arrays, use several.
        """
        model = self.explanation.model
        if model.cpu_bound or model.idle < IDLE_CPUS:
            return False
        return stage.cpu_seconds_per_element < ONE_CPU * model.period
