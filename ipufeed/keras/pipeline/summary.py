"""Formats the table of layers and stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipufeed.keras.pipeline.assignment import (
    Assignment,
    OfModel,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipufeed.tf_types import KerasModel

# Headers, column ends as fractions of the line, default length of the line.
SEQUENTIAL = (("Layer (type)", "Pipeline Stage"), (0.5, 1.0), 60)
OTHERS = (
    ("Layer (type) (node index)", "Input Layers", "Pipeline Stage"),
    (0.4, 0.8, 1.0),
    89,
)


def lines(
    model: KerasModel, rows: list[Assignment], line_length: int | None
) -> Iterator[str]:
    """Yields the lines of a model's table.

    Args:
        model: The model.
        rows: Its assignments.
        line_length: Characters of a line; None for the default.
    """
    of_sequential = all(
        isinstance(
            each,
            (
                SequentialLayerPipelineStageAssignment,
                SequentialNestedModelPipelineStageAssignment,
            ),
        )
        for each in rows
    )
    headers, ends, default = SEQUENTIAL if of_sequential else OTHERS
    width = default if line_length is None else line_length
    columns = [int(width * end) for end in ends]
    yield from _table(f'Model: "{model.name}"', rows, headers, columns, width)


def _table(
    title: str,
    rows: list[Assignment],
    headers: Sequence[str],
    columns: list[int],
    width: int,
) -> Iterator[str]:
    yield title
    yield "_" * width
    yield _line(headers, columns)
    yield "=" * width
    nested = []
    for number, row in enumerate(rows):
        if number:
            yield "_" * width
        if isinstance(row, OfModel):
            nested.append(row)
        yield _line(_cells(row, len(columns)), columns)
    yield "=" * width
    for row in nested:
        name = f'Nested Model: "{row.nested_model.name}"'
        inner = row.pipeline_stage_assignments
        yield from _table(name, inner, headers, columns, width)


def _cells(row: Assignment, number: int) -> list[str]:
    layer = row.layer
    name = f"{layer.name} ({type(layer).__name__})"
    stage = "" if isinstance(row, OfModel) else str(row.pipeline_stage)
    if number == 2:
        return [name, stage]
    inbound = row.inbound_layers
    several = inbound if isinstance(inbound, list) else [inbound]
    return [
        f"{name} ({row.node_index})",
        ", ".join(each.name for each in several),
        stage,
    ]


def _line(cells: Sequence[str], columns: list[int]) -> str:
    line = ""
    for cell, end in zip(cells, columns, strict=True):
        line = (line + cell)[: end - 1].ljust(end)
    return line.rstrip()
