"""Whether two results are of the same thing, and what to know where they are not quite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipufeed.benchmark.comparing.read_result import Run

# Elements of unknown shapes whose mean sizes differ by less are of one kind.
SIZES_DIFFER = 0.1


@dataclass(frozen=True)
class Note:
    """What to know about a comparison.

    Attributes:
        code: For programs.
        message: For people.
        forbids: Whether the ratio is not one of two pipelines, so that there is no verdict.
    """

    code: str
    message: str
    forbids: bool


def notes_on(base: Sequence[Run], new: Sequence[Run], unit: str) -> list[Note]:
    """All notes, the weightiest first."""
    runs = [*base, *new]
    found = [
        differing_machines(runs),
        differing_settings(runs),
        differing_elements(runs, unit),
        unknown_spread(runs),
        differing_versions(runs),
        differing_sizes(runs, unit),
        *warned(runs),
    ]
    return [note for note in found if note is not None]


def value_at(run: Run, part: str, key: str) -> Any:
    """A value of a section, or None."""
    section = run.result.get(part)
    return section.get(key) if isinstance(section, Mapping) else None


def differ(runs: Sequence[Run], part: str, key: str) -> str | None:
    """`a, b` where runs have different values for a key."""
    values = [value_at(run, part, key) for run in runs]
    distinct = [value for n, value in enumerate(values) if value not in values[:n]]
    if len(distinct) < 2:
        return None
    return " and ".join(f"{value}" for value in distinct)


def differing_machines(runs: Sequence[Run]) -> Note | None:
    """Other CPUs, or other numbers of them."""
    for key, what in (("cpu", "CPUs"), ("usable_cpus", "numbers of usable CPUs")):
        values = differ(runs, "machine", key)
        if values is not None:
            return Note(
                "other_machine",
                f"The results are of different {what} ({values}): their ratio says more "
                "about the machines than about the pipelines. Measure both on one.",
                True,
            )
    return None


def differing_settings(runs: Sequence[Run]) -> Note | None:
    """Measured in ways whose rates are not the same thing."""
    questions: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
        ("memcpy", "--no-memcpy", bool),
        ("through", "--through", lambda value: value),
        ("passes", "--passes", lambda value: value is not None),
    )
    for key, option, seen in questions:
        if len({seen(value_at(run, "settings", key)) for run in runs}) > 1:
            return Note(
                "other_settings",
                f"The results were measured with and without {option}: their rates are "
                "not the same thing. Measure both in one way.",
                True,
            )
    return None


def differing_elements(runs: Sequence[Run], unit: str) -> Note | None:
    """Elements that are not the same thing."""
    first = value_at(runs[0], "dataset", "element_spec")
    other = next(
        (
            spec
            for run in runs
            if (spec := value_at(run, "dataset", "element_spec")) != first
        ),
        None,
    )
    if unit == "samples":
        return Note(
            "other_elements",
            "Elements hold different numbers of samples: compared are samples/s.",
            False,
        )
    if other is None:
        return None
    return Note(
        "other_elements",
        f"The elements are different things ({first} and {other}), as many samples in "
        "each as far as is known: the ratio is one of elements/s.",
        any(run.samples is None for run in runs),
    )


def unknown_spread(runs: Sequence[Run]) -> Note | None:
    """A rate from too few windows."""
    for run in runs:
        if run.spread is None:
            return Note(
                "too_short",
                f"{run.name} rests on too few elements to determine its rate's error: "
                "run longer (--seconds, --elements).",
                True,
            )
    return None


def differing_versions(runs: Sequence[Run]) -> Note | None:
    """Other software below the pipelines."""
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


def differing_sizes(runs: Sequence[Run], unit: str) -> Note | None:
    """Elements of the same structure that are much larger on one side."""
    sizes = [value_at(run, "dataset", "bytes_per_element") for run in runs]
    if unit == "samples" or not all(isinstance(size, (int, float)) for size in sizes):
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
    "stalled": ("stalled", "is", "of a dataset that stalled"),
    "interrupted": ("interrupted", "is", "of a run that was interrupted"),
}


def warned(runs: Sequence[Run]) -> list[Note]:
    """The results' own warnings, where they matter to a comparison."""
    notes = []
    for warning, (code, verb, message) in WARNED.items():
        names = [run.name for run in runs if warning in run.warnings]
        if names:
            form = verb if len(names) == 1 else PLURAL[verb]
            notes.append(Note(code, f"{all_of(names)} {form} {message}.", False))
    return notes


def all_of(names: Sequence[str]) -> str:
    """`a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
