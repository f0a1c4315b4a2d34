"""Adds stages, advice and predictions to a result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ipufeed.benchmark.advice.advice import Case
from ipufeed.benchmark.advice.rules import find_advice
from ipufeed.benchmark.advice.verify import verify
from ipufeed.benchmark.advice.what_if import (
    WhatIf,
    answer,
    check_stages,
    parse_what_if,
)
from ipufeed.benchmark.loaders.stages import stages_of
from ipufeed.benchmark.measuring.machine import memory, usable_cpus
from ipufeed.benchmark.measuring.warnings import interrupted_later
from ipufeed.benchmark.result.result import Result
from ipufeed.benchmark.result.sections import WarningSection
from ipufeed.benchmark.stages.explain import Explanation, budget, explain
from ipufeed.checks import flags_checked
from ipufeed.errors import MeasurementInterrupted
from ipufeed.render.units import number
from ipufeed.sources.loaders.kinds import Kind, kind_of
from ipufeed.tf_types import Dataset

# With less time for attribution, stages cannot be determined.
LEAST_SECONDS = 0.4
# Below this fraction of the measured rate, stages of the run with probes are rough.
SLOWED_FRACTION = 0.7
# A run of --verify lasts this many elements, within these limits in seconds.
VERIFY_ELEMENTS = 100
VERIFY_SECONDS = (1.0, 10.0)
# The warning after Ctrl-C.
NO_STAGES = "and stages and advice were not finished."
NOT_TRIED = "the stages are complete, and not all advice was tried."
STAGES_UNKNOWN: WarningSection = {
    "code": "stages_unknown",
    "message": "The stages of this pipeline could not be determined: measure for longer "
    "(--seconds 10), and give a dataset that can be iterated twice.",
}


@flags_checked
def with_stages(
    result: Result,
    dataset: Dataset,
    *,
    verified: bool = False,
    what_if: Sequence[str] = (),
) -> Result:
    """Returns the result with `stages`, `advice` and `what_if`.

    Iterates the dataset again, for half of the measured time and at most five seconds. A
    dataset has no stages if it starts slower than that, gives no element the second time,
    or was measured for less than 0.8 s.

    A loader of another framework has the stages that the framework itself reports, and no
    advice: Grain's, from a second pass, and SPDL's, of the measured pass.

    Args:
        result: The result of measuring `dataset`.
        dataset: The dataset.
        verified: Whether to try the advice.
        what_if: Questions such as `decode=2x`.

    Raises:
        ValueError: A question is not of that form, or names a stage that does not exist.
            Raised before anything runs.
        MeasurementInterrupted: (a KeyboardInterrupt) after Ctrl-C, with a result that has
            the findings until then, and a warning.
    """
    questions = [parse_what_if(text) for text in what_if]
    return add_stages(result, dataset, verified=verified, questions=questions)


def add_stages(
    result: Result, dataset: Dataset, *, verified: bool, questions: Sequence[WhatIf]
) -> Result:
    """Returns the result with `stages`, `advice` and the questions' answers.

    The arguments are those of `with_stages`, parsed and checked.
    """
    kind = kind_of(dataset)
    if kind is not None:
        if questions or verified:
            raise ValueError(
                "`verified` and `what_if` need the graph of a tf.data pipeline, and this "
                f"is a {kind.name}."
            )
        return _with_loader_stages(result, dataset, kind)
    check_stages(questions, dataset)
    try:
        explanation = _explained(result, dataset)
    except KeyboardInterrupt as error:
        raise MeasurementInterrupted(with_interruption(result, NO_STAGES)) from error
    if explanation is None:
        if not (questions or verified):
            return result
        return replace(result, warnings=[*result.warnings, STAGES_UNKNOWN])
    startup = result.startup["seconds"] if result.startup else None
    memcpy = result.memcpy["share"] if result.memcpy else None
    advice = find_advice(
        Case(explanation, usable_cpus(), _available_memory(), startup, memcpy)
    )
    samples = result.dataset["samples_per_element"]
    for each in advice:
        each.text = _with_rates(each.text, explanation.rate, each.predicted, samples)
    interruption: KeyboardInterrupt | None = None
    if verified:
        seconds = _verify_seconds(explanation.rate)
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
        warnings=[*result.warnings, *_slowed(explanation, samples)],
        stages=explanation.rows(),
        advice=[each.row() for each in advice],
        what_if=[answer(question, explanation) for question in questions] or None,
    )
    if interruption is not None:
        raise MeasurementInterrupted(
            with_interruption(found, NOT_TRIED)
        ) from interruption
    return found


def _with_loader_stages(result: Result, source: object, kind: Kind) -> Result:
    """Adds the stages that the framework itself reports."""
    if result.startup is None or result.error is not None:
        return result
    measured = sum(epoch["time_elapsed"] for epoch in result.epochs)
    seconds = budget(measured - result.startup["seconds"])
    # A loader that a function makes for each pass reports the last one alone.
    passes = result.settings["passes"] is not None
    last = result.epochs[-1]["elements_processed"] if passes and result.epochs else None
    elements = result.elements if last is None else last
    return replace(result, stages=stages_of(source, kind, elements, seconds))


def _explained(result: Result, dataset: Dataset) -> Explanation | None:
    """Returns the explanation; None without a rate, or if the time is too short."""
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


def _verify_seconds(rate: float) -> float:
    low, high = VERIFY_SECONDS
    return min(high, max(low, VERIFY_ELEMENTS / max(rate, 1e-9)))


def _with_rates(
    text: str, rate: float, predicted: float | None, samples: float | None
) -> str:
    """Returns advice with its rates: `...: 412 -> about 790 samples/s`."""
    if predicted is None:
        return text
    unit, scale = _unit_of(samples)
    # Two significant digits: it is a prediction.
    about = float(f"{predicted * scale:.2g}")
    return f"{text}: {number(rate * scale)} -> about {about:,.10g} {unit}"


def _unit_of(samples: float | None) -> tuple[str, float]:
    """Returns the unit of the rate, and the factor from elements per second."""
    unit = "elements/s" if not samples or samples == 1 else "samples/s"
    return unit, samples or 1.0


def _available_memory() -> int | None:
    return memory("MemAvailable") or os.sysconf("SC_PAGE_SIZE") * os.sysconf(
        "SC_AVPHYS_PAGES"
    )


def with_interruption(result: Result, left_out: str) -> Result:
    """Returns the result with a warning of what was interrupted after the measurement."""
    return replace(result, warnings=[interrupted_later(left_out), *result.warnings])


def _slowed(explanation: Explanation, samples: float | None) -> list[WarningSection]:
    """Returns a warning if the run with probes was much slower than the measured one."""
    probed = explanation.rate_with_probes()
    if probed >= SLOWED_FRACTION * explanation.rate:
        return []
    unit, scale = _unit_of(samples)
    with_probes, without = (number(rate * scale) for rate in (probed, explanation.rate))
    return [
        {
            "code": "stages_slowed",
            "message": f"Stages are from a run with probes between the steps, which gave "
            f"{with_probes} {unit}, and {without} without: a probe takes as long as such "
            "a small element, or the machine was busier. Their shares and times are "
            "approximate.",
        }
    ]
