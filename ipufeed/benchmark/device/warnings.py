"""Warnings about a measurement through the device."""

from __future__ import annotations

from ipufeed.benchmark.device.knee import TOLERANCE
from ipufeed.benchmark.device.section import (
    NEGLIGIBLE,
    DeviceFacts,
    device_section,
    results_section,
)
from ipufeed.benchmark.device.utilisation import Utilisation
from ipufeed.benchmark.result.sections import WarningSection
from ipufeed.render.units import counted, duration, size
from ipufeed.sources.loaders.as_dataset import places_of

# If the harness takes a larger fraction of a step, it is too slow for the step.
MOST_HARNESS = 0.5
# The least utilisation with a free source.
LEAST_FREE = 0.98
# The AU of fewer steps is only a magnitude.
FEWEST_STEPS = 20
Warning_ = tuple[str, str] | None


def device_warnings(facts: DeviceFacts) -> list[WarningSection]:
    """Returns the warnings about the utilisation and the results."""
    used = facts.utilisation
    if used is None:
        return []
    found = [
        _too_short_a_step(facts),
        _slow_hand_over(facts),
        _few_steps(facts, used),
        _other_batch(facts),
        _bent_knee(facts),
        _short_knee(facts),
        _falls_behind(facts, used),
    ]
    return [{"code": code, "message": message} for code, message in filter(None, found)]


def text_warnings(texts: list[str]) -> list[WarningSection]:
    """Returns the warning that strings of a loader are left out; none without any.

    Args:
        texts: Their places in an element.
    """
    if not texts:
        return []
    places = places_of(texts)
    message = f"Strings are not fed, since no device takes them: {places}."
    return [{"code": "strings_left_out", "message": message}]


def _too_short_a_step(facts: DeviceFacts) -> Warning_:
    step, free = facts.device.step_seconds, facts.free
    if step is None or free is None:
        return None
    if free.harness_seconds <= MOST_HARNESS * step and free.au >= LEAST_FREE:
        return None
    return (
        "step_too_short",
        f"Handing an element of this size over takes {duration(free.harness_seconds)} of "
        f"a step of {duration(step)}, and a free source gets an AU of {free.au:.0%}: the "
        "rest is the simulator's overhead, not the pipeline's.",
    )


def _slow_hand_over(facts: DeviceFacts) -> Warning_:
    """Warns if it is not the loader that a device waits for, but the way to tf.data."""
    own, alone = facts.loader_seconds, facts.alone
    section = device_section(facts)
    if own is None or alone is None or section is None:
        return None
    period = 1 / alone.rate
    if section["verdict"] != "host-bound" or own >= period / 2:
        return None
    return (
        "slow_hand_over",
        f"Of the {duration(period)} between two elements the loader takes "
        f"{duration(own)}, and the rest is the way through tf.data, in Python, which a "
        "training loop does not take: the device waits for that. Without --step-time the "
        "summary names the step that the loader itself keeps busy.",
    )


def _few_steps(facts: DeviceFacts, used: Utilisation) -> Warning_:
    if used.steps >= FEWEST_STEPS or facts.device.step_seconds is None:
        return None
    return (
        "few_steps",
        f"The AU is based on {counted(used.steps, 'step')}: it is only a magnitude. "
        "Measure longer (--seconds).",
    )


def _other_batch(facts: DeviceFacts) -> Warning_:
    preset = facts.device.known_preset
    if preset is None or facts.samples is None or facts.samples == preset.batch:
        return None
    scaled_ms = preset.seconds * facts.samples / preset.batch * 1e3
    return (
        "preset_batch",
        f"The step time of {preset.name} is that of a batch of {preset.batch}, and the "
        f"elements hold {facts.samples:g} samples: make batches of {preset.batch}, or "
        f"give the time of yours (--step-time "
        f"{scaled_ms:.{0 if scaled_ms >= 100 else 1}f}ms, if it scales).",
    )


def _bent_knee(facts: DeviceFacts) -> Warning_:
    found = None if facts.knee is None else facts.knee.deviation()
    if found is None or facts.knee is None or abs(found[1]) <= TOLERANCE:
        return None
    point, off = found
    cause = (
        "elements come in bursts, which its buffers do not even out, or its rate changed "
        "during the sweep"
        if off < 0
        else "its rate changed during the sweep, or its buffers were not empty at its start"
    )
    return (
        "knee_deviates",
        f"At a step of {duration(point.step_seconds)} the AU is {point.found.au:.0%}, "
        f"where an even pipeline would reach {facts.knee.expected(point):.0%}: {cause}.",
    )


def _short_knee(facts: DeviceFacts) -> Warning_:
    """Warns of an incomplete sweep, unless another message reports the reason."""
    if facts.interrupted or facts.run.failure is not None:
        return None
    if not facts.device.knee or facts.failed is not None:
        return (
            None
            if facts.failed is None
            else ("knee_failed", f"The knee was not measured: {facts.failed}.")
        )
    if facts.knee is not None and not facts.knee.ended:
        return None
    return (
        "knee_cut_short",
        "The dataset ended in the sweep of step times: a longer one gives the whole knee.",
    )


def _falls_behind(facts: DeviceFacts, used: Utilisation) -> Warning_:
    results = results_section(facts, used)
    if results is None or results["keeps_up"]:
        return None
    if used.blocked > NEGLIGIBLE:
        cause = f"the device was blocked {used.blocked:.0%} of the time"
    else:
        cause = (
            f"unread results grow by {size(results['growth_bytes_per_second'])}/s, "
            "and the device will be blocked at the queue's limit"
        )
    return (
        "results_pile_up",
        f"The host does not keep up with the results ({results['produced_per_second']:.3g}"
        f" per second): {cause}. Read faster, or enqueue fewer or smaller results.",
    )
