"""The warnings of a result, to know before quoting a number: a code and a sentence each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ipufeed.benchmark.measuring.calibration import NEAR_CEILING, Calibration
from ipufeed.benchmark.measuring.run import RawMeasurement
from ipufeed.benchmark.measuring.steady_state import FEWEST_WINDOWS, SHORTEST_S, Steady
from ipufeed.benchmark.result.sections import WarningSection
from ipufeed.benchmark.result.settings import Settings
from ipufeed.render.units import counted, duration, rate_text

# If other processes use more than this fraction of the CPUs, a rate is a lower bound.
BUSY_SHARE = 0.1
# A gap at the end is a stall if it takes more than this fraction of the run and is twice as
# long as any before.
STALLED_SHARE = 0.1
# The same after a single element, where the length of a usual gap is unknown.
SILENCE_S = 1.0
# Passes whose rates differ by a smaller fraction are taken for equal.
PASSES_DIFFER = 0.2
# Elements to measure, at least, of a dataset whose first element took all of the time.
ELEMENTS_WORTH = 10


@dataclass(frozen=True)
class Facts:
    """The input of the warnings' rules."""

    raw: RawMeasurement
    settings: Settings
    steady: Steady | None
    pass_rates: list[float] | None
    samples: float | None
    calibration: Calibration | None
    others: float | None
    usable_cpus: int
    length: int | str
    loader: bool = False  # of another framework than tf.data


def warnings(facts: Facts) -> list[WarningSection]:
    """Returns the warnings that apply, the most important first."""
    found = [
        check(facts)
        for check in (
            _nothing_measured,
            _interrupted,
            _ended_early,
            empty_passes,
            wrong_length,
            _stalled,
            too_few,
            _too_short,
            uncertain,
            _unsettled,
            passes_differ,
            _near_ceiling,
            busy_machine,
            _opaque_components,
            _samples_unknown,
            _unstamped,
            merged,
        )
    ]
    return [{"code": code, "message": message} for code, message in filter(None, found)]


CodeAndMessage = tuple[str, str] | None


def _how_to_measure_more(facts: Facts) -> str:
    passes = facts.settings.passes
    if facts.raw.failure is not None:
        return "mend what failed, which ended the run"
    if empty_passes(facts) is not None:
        return "give a dataset that can be read again"
    if facts.raw.counters["ended"] and passes is not None:
        return f"ask for more passes than {passes:,} (--passes)"
    if facts.raw.counters["ended"]:
        repeat = "" if facts.loader else "repeat() the dataset, or "
        return f"{repeat}go through it more often (--passes)"
    return "ask for more (--seconds, --elements)"


def _nothing_measured(facts: Facts) -> CodeAndMessage:
    counters = facts.raw.counters
    if counters["elements"] or not counters["ended"]:
        return None
    return "empty_dataset", "The dataset ended without a single element."


def _interrupted(facts: Facts) -> CodeAndMessage:
    counters = facts.raw.counters
    if not counters["stopped"]:
        return None
    return (
        "interrupted",
        "The measurement was interrupted after "
        f"{counted(counters['elements'], 'element')}.",
    )


def interrupted_later(left_out: str) -> WarningSection:
    """Returns the warning for an interruption after a complete measurement.

    Args:
        left_out: The end of the sentence, which names the missing part.
    """
    return {
        "code": "interrupted",
        "message": "Interrupted after the measurement: the rate is that of the whole run, "
        + left_out,
    }


def _ended_early(facts: Facts) -> CodeAndMessage:
    counters, settings = facts.raw.counters, facts.settings
    if not counters["ended"] or not counters["elements"] or settings.passes:
        return None
    elements = counters["elements"]
    if settings.requested_elements is not None:
        if elements >= settings.requested_elements:
            return None
        requested = counted(settings.requested_elements, "element")
    elif settings.epochs:
        requested = counted(settings.epochs, "epoch")
    else:
        requested = f"{settings.time_limit:g} s"
    if elements == 1:
        ended = "its only element"
    else:
        seconds = (counters["last_ns"] - counters["first_ns"]) / 1e9
        ended = f"{elements:,} elements, {duration(seconds)} after the first"
    return (
        "dataset_ended",
        f"The dataset ended after {ended} (requested: {requested}).",
    )


def empty_passes(facts: Facts) -> CodeAndMessage:
    """Warns of passes without an element, as those over an iterator that has ended."""
    counters, passes = facts.raw.counters, facts.settings.passes
    if passes is None or not counters["ended"] or not counters["elements"]:
        return None
    with_elements = len(facts.raw.epochs)
    if counters["epochs_per_entry"] > 1 or with_elements >= passes:
        return None
    return (
        "empty_passes",
        f"Only {with_elements:,} of {passes:,} passes had elements: what a pass reads is "
        "used up after the first. Give a function that makes it, for each pass a new one.",
    )


def wrong_length(facts: Facts) -> CodeAndMessage:
    """Warns of passes that are longer or shorter than the length: a wrong `__len__`."""
    raw, length = facts.raw, facts.length
    if (
        not isinstance(length, int)
        or not raw.counters["ended"]
        or raw.counters["epochs_per_entry"] > 1
    ):
        return None
    if facts.settings.passes is None:
        passes = [raw.counters["elements"]]
    else:
        passes = [int(elements) for elements in raw.epochs[:, 0]]
    other = next((elements for elements in passes if elements != length), None)
    if other is None:
        return None
    return (
        "wrong_length",
        f"The length is {length:,}, and a pass gave {counted(other, 'element')}: progress "
        "and steps per epoch that follow the length are wrong.",
    )


def _stalled(facts: Facts) -> CodeAndMessage:
    counters, stamps = facts.raw.counters, facts.raw.stamps
    if counters["ended"] or facts.raw.failure is not None or len(stamps) == 0:
        return None
    silence = counters["finished_ns"] - counters["last_ns"]
    run = counters["finished_ns"] - counters["first_ns"]
    if len(stamps) == 1:
        if silence < SILENCE_S * 1e9:
            return None
        return (
            "stalled",
            f"No other element came in the {duration(silence / 1e9)} after the first: the "
            "dataset hangs, or takes longer than that.",
        )
    if silence <= STALLED_SHARE * run or silence <= 2 * int(np.diff(stamps).max()):
        return None
    length, elements = facts.length, counters["elements"]
    if isinstance(length, int) and length and elements % length == 0:
        cause = (
            f": the passes of {counted(length, 'element')} are complete, and to end the "
            "last one takes longer, perhaps to end its workers. The"
        )
    else:
        cause = ": the"
    return (
        "stalled",
        f"No element came in the last {duration(silence / 1e9)} of {duration(run / 1e9)}"
        f"{cause} rate is that of the time before.",
    )


def too_few(facts: Facts) -> CodeAndMessage:
    """Warns of too few elements for a rate, or for more than its magnitude."""
    elements = facts.raw.counters["elements"]
    if elements == 0 or elements > FEWEST_WINDOWS:
        return None
    if facts.steady is None:
        return (
            "no_rate",
            f"{counted(elements, 'element')} cannot give a rate: that takes two, with some "
            f"time between them.{_longer_than_first(facts)}",
        )
    return (
        "few_elements",
        f"The rate rests on {counted(elements, 'element')}: take it as a magnitude, or "
        f"{_how_to_measure_more(facts)}.",
    )


def _longer_than_first(facts: Facts) -> str:
    counters, settings = facts.raw.counters, facts.settings
    first = (counters["first_ns"] - counters["requested_ns"]) / 1e9
    if counters["ended"] or settings.seconds is None or first < settings.seconds / 2:
        return ""
    return (
        f" The first one took {duration(first)} and {settings.seconds:g} s were requested: "
        f"measure for longer (--seconds {math.ceil(ELEMENTS_WORTH * first)})."
    )


def _too_short(facts: Facts) -> CodeAndMessage:
    steady = facts.steady
    if steady is None or not steady.short or too_few(facts) is not None:
        return None
    return (
        "short_run",
        f"The rate rests on {duration(steady.seconds)}, less than the "
        f"{SHORTEST_S * 1e3:.0f} ms that a fill or a drain takes to detect: it is a "
        f"magnitude, or {_how_to_measure_more(facts)}.",
    )


def uncertain(facts: Facts) -> CodeAndMessage:
    """Warns of a rate whose interval is wider than WIDEST."""
    steady = facts.steady
    if steady is None or steady.short or steady.sure or steady.half_width is None:
        return None
    return (
        "uncertain",
        f"The rate is only known to ± {steady.half_width:.0%}, too little to detect a fill "
        f"or a drain: take it as a magnitude, or {_how_to_measure_more(facts)}.",
    )


def passes_differ(facts: Facts) -> CodeAndMessage:
    """Warns of passes of different rates, as after the one that fills a cache."""
    rates, steady = facts.pass_rates, facts.steady
    if not rates or steady is None or steady.short:
        return None
    first, low, high = rates[0], min(rates), max(rates)
    if high <= (1 + PASSES_DIFFER) * low:
        return None
    slowest, fastest = min(rates[1:]), max(rates[1:])
    others = f"the second {rate_text(slowest)}"
    if len(rates) > 2:
        others = f"the others {rate_text(slowest)} to {rate_text(fastest)}"
    return (
        "passes_differ",
        f"The passes differ: the first one gave {rate_text(first)} elements/s, {others}. "
        f"The steady rate mixes them; `pass_rates` has each.{_of_restarts(facts)}",
    )


def _of_restarts(facts: Facts) -> str:
    """Returns what the starts of later passes take, if it is much; the first has none."""
    raw = facts.raw
    passes, stamps = np.asarray(raw.epochs), np.asarray(raw.stamps)
    firsts = np.cumsum(passes[:, 0])[:-1]  # of the later passes
    if raw.counters["epochs_per_entry"] > 1 or firsts[-1] >= len(stamps):
        return ""
    start = float(np.median(stamps[firsts] - stamps[firsts - 1])) / 1e9
    share = start * 1e9 / float(np.median(passes[1:, 4] - passes[1:, 3]))
    if share < PASSES_DIFFER / 2:
        return ""
    keep = " (as `persistent_workers=True` of PyTorch does)" if facts.loader else ""
    return (
        f" Each later pass has its start in it, {duration(start)} or {share:.0%} of the "
        f"pass; that of the first pass is the start-up. Keep the workers{keep}, or "
        "measure longer passes."
    )


def _unsettled(facts: Facts) -> CodeAndMessage:
    if facts.steady is None or facts.steady.settled or not facts.steady.sure:
        return None
    return (
        "not_steady",
        "The rate was still changing when half of the run was left out: run longer "
        "(--seconds) before quoting it.",
    )


def _near_ceiling(facts: Facts) -> CodeAndMessage:
    if facts.steady is None or facts.calibration is None:
        return None
    ceiling = facts.calibration.ceiling
    if facts.steady.rate <= NEAR_CEILING * ceiling:
        return None
    return (
        "near_resolution",
        f"The rate is {facts.steady.rate / ceiling:.0%} of the {ceiling:,.0f} elements/s "
        "that a null pipeline gives here: the pipeline itself may be faster.",
    )


def busy_machine(facts: Facts) -> CodeAndMessage:
    """Warns of other processes that used the CPUs."""
    if facts.steady is None or not facts.steady.sure or facts.others is None:
        return None
    if facts.others <= BUSY_SHARE * facts.usable_cpus:
        return None
    return (
        "busy_machine",
        f"Other processes (any that the dataset started, too) kept {facts.others:.1f} of "
        f"{facts.usable_cpus} CPUs busy during the run: on a quiet machine the rate would "
        "probably be higher.",
    )


def _opaque_components(facts: Facts) -> CodeAndMessage:
    opaque = facts.raw.counters["opaque"]
    if not opaque:
        return None
    return (
        "bytes_unknown",
        f"{opaque} component value(s) (nested datasets, resources, objects) were neither "
        "counted nor copied: bytes and bandwidth leave them out.",
    )


def _samples_unknown(facts: Facts) -> CodeAndMessage:
    if facts.samples is not None or not facts.raw.counters["elements"]:
        return None
    return (
        "samples_unknown",
        "The pipeline batches, but the components of an element differ in their leading "
        "dimension: samples are not counted. Set how many there are with "
        "--items-per-element.",
    )


def _unstamped(facts: Facts) -> CodeAndMessage:
    stamped, elements = len(facts.raw.stamps), facts.raw.counters["elements"]
    if stamped >= elements:
        return None
    return (
        "stamps_full",
        f"Only the first {stamped} of {elements} elements have a time of their own: "
        "latency and the steady state come from these.",
    )


def merged(facts: Facts) -> CodeAndMessage:
    """Warns that entries of `epochs` add up several epochs."""
    each = facts.raw.counters["epochs_per_entry"]
    if each == 1:
        return None
    return (
        "epochs_merged",
        f"There were too many epochs to list: each entry of `epochs` adds up {each} "
        "neighbours. Larger ones (--elements) are listed one by one.",
    )
