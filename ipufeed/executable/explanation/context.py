"""Compares the compile contexts: target, options, flags, environment, host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.program.file_format import JsonObject
from ipufeed.render.terminal_text import printable

# A section of a compile context, which files may contain in any form.
Section = Any

# Field -> its name in sentences, and the option that sets it.
TARGET = {
    "num_ipus": ("number of IPUs", "IPUConfig.auto_select_ipus or select_ipus"),
    "tiles_per_ipu": (
        "tiles per IPU",
        "IPUConfig.ipu_model.tiles_per_ipu or --ipu_model_tiles",
    ),
    "num_io_tiles": ("I/O tiles", "IPUConfig.io_tiles.num_io_tiles"),
    "order": ("order of IPUs", "IPUConfig.selection_order"),
}
HOST = {
    "tensorflow": "TensorFlow",
    "tensorflow_git": "TensorFlow's build",
    "ipufeed": "ipufeed's build",
    "cpu": "the host's CPU",
    "cpus": "the CPUs that the process may use",
}


def explain_context(before: JsonObject, after: JsonObject) -> list[Cause]:
    """Returns the differences between two compile contexts, host first."""
    causes = [
        *_host_causes(before.get("host"), after.get("host")),
        *_target_causes(before.get("target"), after.get("target")),
    ]
    for section, kind, title in (
        ("flags", "flag", "--{} in TF_POPLAR_FLAGS"),
        ("config", "option", "IPUConfig.{}"),
        ("environment", "environment", "environment variable {}"),
    ):
        for name, was, now in _differences(before.get(section), after.get(section)):
            full = title.format(printable(name))
            text = f"{full} changed {_show(was)} -> {_show(now)}"
            causes.append(Cause(kind, text, "", name, was, now))
    rest = {"host", "target", "flags", "config", "environment"}
    for name, was, now in _differences(
        {key: value for key, value in before.items() if key not in rest},
        {key: value for key, value in after.items() if key not in rest},
    ):
        text = f"{printable(name)} changed {_show(was)} -> {_show(now)}"
        causes.append(Cause("environment", text, "", name, was, now))
    return causes


def _host_causes(before: Section, after: Section) -> Iterator[Cause]:
    for name, was, now in _differences(before, after):
        if name == "tensorflow_git" and before.get("tensorflow") != after.get(
            "tensorflow"
        ):
            continue  # the cause for the version includes it
        title = HOST.get(name, printable(name))
        advice = ""
        if name == "cpus":
            advice = "start all processes with the same `taskset`"
        text = f"{title} changed {_show(was)} -> {_show(now)}"
        yield Cause("environment", text, advice, name, was, now)


def _target_causes(before: Section, after: Section) -> Iterator[Cause]:
    for name, was, now in _differences(before, after):
        title, option = TARGET.get(name, (printable(name), ""))
        text = f"the target's {title} changed {_show(was)} -> {_show(now)}"
        yield Cause(
            "target", text + (f" ({option})" if option else ""), "", name, was, now
        )


def _differences(
    before: Section, after: Section, prefix: str = ""
) -> Iterator[tuple[str, Section, Section]]:
    """Yields dotted name, value before and after of each difference; None if missing."""
    if isinstance(before, dict) or isinstance(after, dict):
        one = before if isinstance(before, dict) else {}
        other = after if isinstance(after, dict) else {}
        for name in sorted({*one, *other}):
            full = f"{prefix}.{name}" if prefix else str(name)
            yield from _differences(one.get(name), other.get(name), full)
    elif before != after:
        yield prefix, before, after


def _show(value: object) -> str:
    """Formats a value as JSON, but strings without quotes."""
    if value is None:
        return "(not set)"
    if isinstance(value, str):
        return printable(value) if value else '""'
    return printable(json.dumps(value))
