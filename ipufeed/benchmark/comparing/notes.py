"""Notes on a comparison: whether results are comparable, and how they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ipufeed.benchmark.comparing.read_result import ComparedRun

# Elements of unknown shapes whose mean sizes differ by less are taken for equal.
SIZES_DIFFER = 0.1


@dataclass(frozen=True)
class Note:
    """A fact to know about a comparison.

    Attributes:
        code: The kind of note.
        message: A sentence.
        forbids: Whether the results are not comparable, so that there is no verdict.
    """

    code: str
    message: str
    forbids: bool


def notes_on(
    base: Sequence[ComparedRun], new: Sequence[ComparedRun], unit: str
) -> list[Note]:
    """Returns the notes, the most important first."""
    runs = [*base, *new]
    found = [
        _differing_machines(runs),
        _differing_settings(runs),
        _differing_elements(runs, unit),
        _too_short(runs),
        _differing_versions(runs),
        _differing_sizes(runs, unit),
        *warned(runs),
    ]
    return [note for note in found if note is not None]


def _value_at(run: ComparedRun, part: str, key: str) -> object:
    section = run.result.get(part)
    return section.get(key) if isinstance(section, Mapping) else None


def differ(runs: Sequence[ComparedRun], part: str, key: str) -> str | None:
    """Returns the runs' values of a key as `a and b`, or None if they are equal."""
    values = [_value_at(run, part, key) for run in runs]
    distinct = [value for n, value in enumerate(values) if value not in values[:n]]
    if len(distinct) < 2:
        return None
    return " and ".join(f"{value}" for value in distinct)


def _differing_machines(runs: Sequence[ComparedRun]) -> Note | None:
    for key, what in (("cpu", "CPUs"), ("usable_cpus", "numbers of usable CPUs")):
        values = differ(runs, "machine", key)
        if values is not None:
            return Note(
                "other_machine",
                f"The results are of different {what} ({values}): their ratio compares "
                "the machines more than the pipelines. Measure both on one machine.",
                True,
            )
    return None


def _differing_settings(runs: Sequence[ComparedRun]) -> Note | None:
    options: tuple[tuple[str, str, Callable[[object], object]], ...] = (
        ("memcpy", "--no-memcpy", bool),
        ("through", "--through", lambda value: value),
        ("passes", "--passes", lambda value: value is not None),
    )
    for key, option, aspect in options:
        if len({aspect(_value_at(run, "settings", key)) for run in runs}) > 1:
            return Note(
                "other_settings",
                f"The results were measured with and without {option}: their rates are "
                "not comparable. Measure both with the same options.",
                True,
            )
    return None


def _differing_elements(runs: Sequence[ComparedRun], unit: str) -> Note | None:
    first = _value_at(runs[0], "dataset", "element_spec")
    other = next(
        (
            spec
            for run in runs
            if (spec := _value_at(run, "dataset", "element_spec")) != first
        ),
        None,
    )
    if unit == "samples":
        return Note(
            "other_elements",
            "Elements hold different numbers of samples: samples/s are compared.",
            False,
        )
    if other is None:
        return None
    return Note(
        "other_elements",
        f"The elements differ ({first} and {other}), with the same number of samples in "
        "each, as far as known: elements/s are compared.",
        any(run.samples is None for run in runs),
    )


def _too_short(runs: Sequence[ComparedRun]) -> Note | None:
    for run in runs:
        if run.log_variance is None:
            return Note(
                "too_short",
                f"{run.name} rests on too few elements to determine its rate's error: "
                "run longer (--seconds, --elements).",
                True,
            )
    return None


def _differing_versions(runs: Sequence[ComparedRun]) -> Note | None:
    found = []
    for key in ("tensorflow", "ipufeed", "numpy", "python", "kernel", "governor"):
        values = differ(runs, "machine", key)
        if values is not None:
            found.append(f"{key} {values}")
    if not found:
        return None
    return Note(
        "other_versions",
        f"Not only the pipelines differ: {'; '.join(found)}.",
        False,
    )


def _differing_sizes(runs: Sequence[ComparedRun], unit: str) -> Note | None:
    values = [_value_at(run, "dataset", "bytes_per_element") for run in runs]
    sizes = [size for size in values if isinstance(size, (int, float))]
    if unit == "samples" or len(sizes) < len(values):
        return None
    if max(sizes) <= (1 + SIZES_DIFFER) * min(sizes):
        return None
    return Note(
        "other_sizes",
        f"Elements have {min(sizes):,.0f} to {max(sizes):,.0f} bytes on average: the "
        "results may be of different data.",
        False,
    )


PLURAL = {"is": "are", "was": "were"}
WARNED = {
    "near_resolution": (
        "harness_limited",
        "is",
        "near the rate of a null pipeline: the harness hides a part of any difference",
    ),
    "busy_machine": (
        "busy_machine",
        "was",
        "measured on a busy machine, for which the interval is widened",
    ),
    "not_steady": ("not_steady", "is", "of a rate that was still changing"),
    "passes_differ": ("passes_differ", "is", "of passes at different rates"),
    "stalled": (
        "stalled",
        "is",
        "of a dataset that stalled: the rate is that of the time before",
    ),
    "interrupted": ("interrupted", "is", "of a run that was interrupted"),
}


def warned(runs: Sequence[ComparedRun]) -> list[Note]:
    """Returns notes for the results' own warnings that affect a comparison.

    A stall forbids a verdict: a rate of the time before would hide that training stops.
    """
    notes = []
    for warning, (code, verb, message) in WARNED.items():
        names = [run.name for run in runs if warning in run.warnings]
        if names:
            form = verb if len(names) == 1 else PLURAL[verb]
            notes.append(
                Note(code, f"{_all_of(names)} {form} {message}.", code == "stalled")
            )
    return notes


def _all_of(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
