"""The executable cache, calls of saved programs, and graphs without compile."""

import json
import operator
import tempfile
from typing import Any

from benchmarks import child
from benchmarks.targets import Row, comparison, row

MODELS = {"mlp": "MLP 784-256-256-10", "resnet": "small ResNet of 13 convolutions"}


def rows(quick: bool) -> list[Row]:
    """Measures starts, each a process: quickly a pair of the MLP, else three per model."""
    found = []
    for model in ["mlp"] if quick else MODELS:
        found += starts(model, 1 if quick else 3)
    found += saved_calls(2 if quick else 5)
    return found + whole_graph(200 if quick else 2000)


def whole_graph(runs: int) -> list[Row]:
    """Measures a version 1 graph without `ipu_compiler.compile`, and the same with it."""
    found: dict[str, Any] = json.loads(child.output("programs.whole_graph", str(runs)))
    assert found["operations"] >= 50
    return [
        row(
            "a graph of over 50 operations without compile: programs",
            "at most",
            1,
            "",
            [found["compiles"]],
        ),
        comparison(
            "    a run of it, next to one of the same under compile",
            "at most",
            1.2,
            "x",
            operator.truediv,
            found["plain"],
            found["compiled"],
        ),
    ]


def start(model: str, folder: str) -> dict[str, Any]:
    """Starts a training loop in a new process; returns the times that it prints."""
    text = child.output("programs.warm_start", model, folder)
    result: dict[str, Any] = json.loads(text)
    return result


def starts(model: str, repeats: int) -> list[Row]:
    """Measures cold and warm starts, alternately."""
    cold, warm = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(start(model, folder))
            warm.append(start(model, folder))
    assert all(each["compiles"] == 1 for each in cold)
    assert all(each["compiles"] == 0 and each["disk_hits"] == 1 for each in warm)
    name = MODELS[model]
    return [
        comparison(
            f"{name}: start from the cache, less than compiling",
            "at least",
            4,
            "x",
            operator.truediv,
            [each["seconds"] for each in cold],
            [each["seconds"] for each in warm],
        ),
        row("    compiling", "", 0, "s", [each["seconds"] for each in cold]),
        row("    from the cache", "", 0, "s", [each["seconds"] for each in warm]),
        row(
            "    its key",
            "at most",
            5,
            "ms",
            [each["key_seconds"] * 1e3 for each in cold + warm],
        ),
    ]


def saved_call(mode: str, path: str) -> dict[str, Any]:
    """Calls a program in a file, in a new process; returns the times that it prints."""
    text = child.output("programs.saved_call", mode, path, "1000")
    result: dict[str, Any] = json.loads(text)
    return result


def saved_calls(repeats: int) -> list[Row]:
    """Measures the process that compiles the file and another one, alternately."""
    here, there = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/mlp.poplar_exec"
            here.append(saved_call("compile", path))
            there.append(saved_call("call", path))
    assert all(each["compiles"] == 1 for each in here)
    assert all(each["compiles"] == 0 for each in there)
    return [
        comparison(
            "call of a program in a file: another process than the compiling one",
            "at most",
            1.2,
            "x",
            operator.truediv,
            [each["us"] for each in there],
            [each["us"] for each in here],
        ),
        row("    in the compiling one", "", 0, "us", [each["us"] for each in here]),
        row("    in another", "", 0, "us", [each["us"] for each in there]),
    ]
