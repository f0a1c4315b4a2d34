"""What two programs were compiled for: target, options, flags, environment, host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ipufeed.executable.explanation.cause import Cause
from ipufeed.render.terminal_text import printable

# What a reader knows it as, and where it is set.
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


def explain_surroundings(before: dict[str, Any], after: dict[str, Any]) -> list[Cause]:
    """What differs between the surroundings of two programs, host first."""
    causes = [
        *host_causes(before.get("host"), after.get("host")),
        *target_causes(before.get("target"), after.get("target")),
    ]
    for section, kind, title in (
        ("flags", "flag", "--{} in TF_POPLAR_FLAGS"),
        ("config", "option", "IPUConfig.{}"),
        ("environment", "environment", "environment variable {}"),
    ):
        for name, was, now in differences(before.get(section), after.get(section)):
            full = title.format(printable(name))
            causes.append(
                Cause(
                    kind,
                    f"{full} changed {show(was)} -> {show(now)}",
                    "",
                    name,
                    was,
                    now,
                )
            )
    rest = {"host", "target", "flags", "config", "environment"}
    for name, was, now in differences(
        {key: value for key, value in before.items() if key not in rest},
        {key: value for key, value in after.items() if key not in rest},
    ):
        text = f"{printable(name)} changed {show(was)} -> {show(now)}"
        causes.append(Cause("environment", text, "", name, was, now))
    return causes


def host_causes(before: Any, after: Any) -> Iterator[Cause]:
    """Other versions, another machine."""
    for name, was, now in differences(before, after):
        if name == "tensorflow_git" and before.get("tensorflow") != after.get(
            "tensorflow"
        ):
            continue  # the version's cause covers it
        title = HOST.get(name, printable(name))
        advice = ""
        if name == "cpus":
            advice = "start all processes with the same `taskset`"
        text = f"{title} changed {show(was)} -> {show(now)}"
        yield Cause("environment", text, advice, name, was, now)


def target_causes(before: Any, after: Any) -> Iterator[Cause]:
    """Another simulated machine."""
    for name, was, now in differences(before, after):
        title, option = TARGET.get(name, (printable(name), ""))
        text = f"the target's {title} changed {show(was)} -> {show(now)}"
        yield Cause(
            "target", text + (f" ({option})" if option else ""), "", name, was, now
        )


def differences(
    before: Any, after: Any, prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Full name, value before and value after of all that differs; None if it has none."""
    if isinstance(before, dict) or isinstance(after, dict):
        one = before if isinstance(before, dict) else {}
        other = after if isinstance(after, dict) else {}
        for name in sorted({*one, *other}):
            full = f"{prefix}.{name}" if prefix else str(name)
            yield from differences(one.get(name), other.get(name), full)
    elif before != after:
        yield prefix, before, after


def show(value: Any) -> str:
    """A value as it is written in JSON, but for texts, which need no quotes."""
    if value is None:
        return "(not set)"
    if isinstance(value, str):
        return printable(value) if value else '""'
    return printable(json.dumps(value))
