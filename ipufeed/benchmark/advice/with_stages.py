"""Adds to a result what holds the pipeline back: stages, advice, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ipufeed.benchmark.advice.advice import Case
from ipufeed.benchmark.advice.find import find_advice, usable_memory
from ipufeed.benchmark.advice.verify import verify
from ipufeed.benchmark.advice.what_if import answer, check_stages, parse_what_if
from ipufeed.benchmark.loaders.kinds import Kind, kind_of
from ipufeed.benchmark.loaders.stages import stages_of
from ipufeed.benchmark.measuring.machine import usable_cpus
from ipufeed.benchmark.measuring.warnings import interrupted_later
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import WarningSection
from ipufeed.benchmark.stages.explain import Explanation, budget, explain
from ipufeed.checks import flags_checked
from ipufeed.errors import MeasurementInterrupted
from ipufeed.render.units import number
from ipufeed.tf_types import Dataset

# With less time than this for attribution there is nothing to be seen.
LEAST_SECONDS = 0.4
# A run with probes that gives less than this of the measured rate is another pipeline's.
SLOWED_SHARE = 0.7
# Seconds of each run of --verify, and bounds for runs of slow elements.
VERIFY_ELEMENTS = 100
VERIFY_SECONDS = (1.0, 10.0)
# The warning after Ctrl-C.
NO_STAGES = "and stages and advice were not finished."
NOT_TRIED = "the stages are whole, and not all advice was tried."


@flags_checked
def with_stages(
    result: Result,
    dataset: Dataset,
    *,
    verified: bool = False,
    what_if: Sequence[str] = (),
) -> Result:
    """The result with `stages`, `advice` and `what_if`.

    It iterates the dataset again, for half of the time that was measured and at most five
    seconds. A dataset that starts slower than that, ends without an element the second
    time, or was measured for less than 0.8 s, has no stages.

    A loader of another framework has the stages that the framework itself reports, and no
    advice: Grain's, from a second pass, and SPDL's, of the pass that was measured.

    Args:
        result: Of a measurement of `dataset`.
        dataset: The same.
        verified: Whether to try the advice.
        what_if: Questions such as `decode=2x`.

    Returns:
        A new result.

    Raises:
        ValueError: A question is not of that form, or names a stage that is not there.
            Known before anything runs.
        MeasurementInterrupted: (a KeyboardInterrupt) after Ctrl-C, with a result that has
            what was found until then, and a warning.
    """
    questions = [parse_what_if(text) for text in what_if]
    kind = kind_of(dataset)
    if kind is not None:
        if questions or verified:
            raise ValueError(
                "`verified` and `what_if` need the graph of a tf.data pipeline, and this "
                f"is a {kind.name}."
            )
        return with_loader_stages(result, dataset, kind)
    check_stages(questions, dataset)
    try:
        explanation = explained(result, dataset)
    except KeyboardInterrupt as error:
        raise MeasurementInterrupted(warned(result, NO_STAGES)) from error
    if explanation is None:
        if not (questions or verified):
            return result
        return replace(result, warnings=[*result.warnings, no_stages()])
    startup = result.startup["seconds"] if result.startup else None
    memcpy = result.memcpy["share"] if result.memcpy else None
    advice = find_advice(
        Case(explanation, usable_cpus(), usable_memory(), startup, memcpy)
    )
    samples = result.dataset["samples_per_element"]
    for each in advice:
        each.text = with_rates(each.text, explanation.rate, each.predicted, samples)
    interruption: KeyboardInterrupt | None = None
    if verified:
        seconds = verify_seconds(explanation.rate)
        try:
            verify(advice, dataset, explanation.graph, seconds, explanation.rate)
        except KeyboardInterrupt as error:
            interruption = error
            for each in advice:
                if each.measured_gain is None and each.note is None:
                    each.note = "not tried: interrupted"
    for stage in explanation.stages:
        own = [each.text for each in advice if each.node == stage.node]
        stage.advice = own[0] if own else None
    found = replace(
        result,
        warnings=[*result.warnings, *slowed(explanation, samples)],
        stages=explanation.rows(),
        advice=[each.row() for each in advice],
        what_if=[answer(question, explanation) for question in questions] or None,
    )
    if interruption is not None:
        raise MeasurementInterrupted(warned(found, NOT_TRIED)) from interruption
    return found


def with_loader_stages(result: Result, source: Any, kind: Kind) -> Result:
    """The stages that the framework itself reports, where it does."""
    if result.startup is None or result.error is not None:
        return result
    measured = sum(epoch["time_elapsed"] for epoch in result.epochs)
    seconds = budget(measured - result.startup["seconds"])
    return replace(result, stages=stages_of(source, kind, result.elements, seconds))


def explained(result: Result, dataset: Dataset) -> Explanation | None:
    """The explanation, where there is time and something to explain."""
    if result.steady is None or result.error is not None or result.startup is None:
        return None
    measured = sum(epoch["time_elapsed"] for epoch in result.epochs)
    seconds = budget(measured - result.startup["seconds"])
    if seconds < LEAST_SECONDS or result.startup["seconds"] > seconds / 2:
        return None
    return explain(
        dataset,
        seconds,
        result.steady["elements_per_second"],
        copy_elements=bool(result.settings["memcpy"]),
    )


def verify_seconds(rate: float) -> float:
    """How long each run must be for its rate to mean something."""
    low, high = VERIFY_SECONDS
    return min(high, max(low, VERIFY_ELEMENTS / max(rate, 1e-9)))


def with_rates(
    text: str, rate: float, predicted: float | None, samples: float | None
) -> str:
    """`...: 412 -> about 790 samples/s`."""
    if predicted is None:
        return text
    unit = "elements/s" if not samples or samples == 1 else "samples/s"
    scale = samples or 1.0
    return f"{text}: {number(rate * scale)} -> about {about(predicted * scale)} {unit}"


def about(value: float) -> str:
    """Two significant digits: it is a prediction."""
    return f"{float(f'{value:.2g}'):,.10g}"


def warned(result: Result, left_out: str) -> Result:
    """The result of an interrupted look at the stages; its rate is not concerned."""
    return replace(result, warnings=[interrupted_later(left_out), *result.warnings])


def slowed(explanation: Explanation, samples: float | None) -> list[WarningSection]:
    """A warning where the stages are those of a much slower run than was measured."""
    seen = explanation.rate_with_probes()
    if seen >= SLOWED_SHARE * explanation.rate:
        return []
    unit = "elements/s" if not samples or samples == 1 else "samples/s"
    with_probes, without = (
        number(rate * (samples or 1.0)) for rate in (seen, explanation.rate)
    )
    return [
        {
            "code": "stages_slowed",
            "message": f"Stages are from a run with probes between the steps, which gave "
            f"{with_probes} {unit} where {without} were measured: to look at such small "
            "elements costs as much as to make them, or the machine was busier. Take "
            "their shares and times as rough ones.",
        }
    ]


def no_stages() -> WarningSection:
    """Why there is no answer."""
    return {
        "code": "stages_unknown",
        "message": "The stages of this pipeline could not be determined: measure for "
        "longer (--seconds 10), and give a dataset that can be iterated twice.",
    }
