"""What a pipeline has really done: a row for each stage, a colour for each mini-batch.

    with timeline.record() as executed:
        session.run(program)
    executed.write_svg("pipeline.svg")
    print(executed.utilisation())

The programs of the chips say when each stage begins and ends; nothing is computed from the
schedule. `ipufeed.executable.trace` writes the same into a Chrome trace, with the rest.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ipufeed.executable import tracing
from ipufeed.executable.tracing import Event, Kind

COLOURS = (
    "#4e79a7",
    "#f28e2b",
    "#59a14f",
    "#e15759",
    "#76b7b2",
    "#edc948",
    "#b07aa1",
    "#9c755f",
)
LABEL = re.compile(r"([FB])(\d+)(?:\.(\d+))? on chip (\d+)")


@dataclass(frozen=True)
class Slice:
    """A stage at work on a mini-batch.

    Attributes:
        label: The stage, as in "F0" or "B1".
        chip: Its IPU within the device.
        mini_batch: The number of the mini-batch, from 0 in each execution.
        start_ns: On the monotonic clock.
        end_ns: Likewise.
    """

    label: str
    chip: int
    mini_batch: int
    start_ns: int
    end_ns: int

    @property
    def order(self) -> tuple[int, int, str]:
        """Rows by chip, forward first."""
        return self.chip, self.label[0] == "B", self.label


@dataclass
class Timeline:
    """The slices of what has been recorded.

    Attributes:
        slices: By their start.
    """

    slices: list[Slice] = field(default_factory=list)

    @property
    def start_ns(self) -> int:
        """When the first slice begins."""
        return min(each.start_ns for each in self.slices)

    @property
    def end_ns(self) -> int:
        """When the last one ends."""
        return max(each.end_ns for each in self.slices)

    def rows(self) -> dict[str, list[Slice]]:
        """The slices of each stage, by a name of it; rows of a chip stand together."""
        found: dict[str, list[Slice]] = {}
        for each in sorted(self.slices, key=lambda one: (one.order, one.start_ns)):
            found.setdefault(f"IPU {each.chip}, {each.label}", []).append(each)
        return found

    def utilisation(self) -> dict[int, float]:
        """Of each chip, which share of the time some stage of it was at work.

        A stage is at work from when it has its inputs until its outputs are computed:
        waits for other chips and for feeds are idle time. Ideal, for one stage of a
        grouped pipeline on each chip, is N / (N + S - 1).
        """
        whole = self.end_ns - self.start_ns
        busy: dict[int, int] = {}
        for each in self.slices:
            busy[each.chip] = busy.get(each.chip, 0) + each.end_ns - each.start_ns
        return {chip: busy[chip] / whole for chip in sorted(busy)}

    def to_svg(self) -> str:
        """The picture.

        Raises:
            ValueError: Nothing has been recorded.
        """
        if not self.slices:
            raise ValueError(
                "No stage has been recorded: run a pipeline to its end inside the block."
            )
        return draw(self)

    def write_svg(self, path: str | os.PathLike[str]) -> None:
        """Writes it, in place of what the file has.

        Raises:
            ValueError: Nothing has been recorded.
            OSError: The file cannot be written.
        """
        Path(path).write_text(self.to_svg(), encoding="utf-8")


@contextlib.contextmanager
def record(events: int = tracing.DEFAULT_EVENTS) -> Iterator[Timeline]:
    """Records the pipelines that run in the block.

    Args:
        events: How many events of each thread are kept. Default: 65536.

    Yields:
        A timeline, which is filled at the block's end.

    Raises:
        RuntimeError: A trace is running already: there is one for the process.
    """
    timeline = Timeline()
    tracing.start(events)
    try:
        yield timeline
    finally:
        found, _ = tracing.stop()
        timeline.slices = slices_of(found)


def slices_of(events: list[Event]) -> list[Slice]:
    """Those of stages."""
    found = []
    for event in events:
        label = LABEL.fullmatch(event.name) if event.kind is Kind.STAGE else None
        if label is None:
            continue
        branch = f".{label[3]}" if label[3] else ""
        found.append(
            Slice(
                f"{label[1]}{label[2]}{branch}",
                int(label[4]),
                event.nbytes,
                event.start_ns,
                event.end_ns,
            )
        )
    return found


WIDTH, ROW, LEFT, TOP = 960, 26, 96, 30


def draw(timeline: Timeline) -> str:
    """The SVG: time from left to right, what is idle is grey."""
    rows = timeline.rows()
    whole = max(1, timeline.end_ns - timeline.start_ns)
    height = TOP + ROW * len(rows) + 24
    share = timeline.utilisation()
    title = ", ".join(f"IPU {chip} {part:.0%}" for chip, part in share.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 16}" '
        f'height="{height}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>{html.escape(f'At work: {title}')}</title>",
        f'<text x="8" y="18">{whole / 1e6:.3f} ms; at work: {html.escape(title)}</text>',
    ]
    for number, (name, slices) in enumerate(rows.items()):
        y = TOP + number * ROW
        parts += [
            f'<text x="8" y="{y + 17}">{html.escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y + 2}" width="{WIDTH}" height="{ROW - 4}" '
            'fill="#ececef"/>',
        ]
        for each in slices:
            x = LEFT + (each.start_ns - timeline.start_ns) / whole * WIDTH
            width = max(0.5, (each.end_ns - each.start_ns) / whole * WIDTH)
            colour = COLOURS[each.mini_batch % len(COLOURS)]
            text = f"{each.label}, mini-batch {each.mini_batch}"
            parts.append(
                f'<rect x="{x:.2f}" y="{y + 2}" width="{width:.2f}" height="{ROW - 4}" '
                f'fill="{colour}"><title>{text}</title></rect>'
            )
            if width > 16:
                parts.append(
                    f'<text x="{x + width / 2:.2f}" y="{y + 17}" fill="#fff" '
                    f'text-anchor="middle">{each.mini_batch}</text>'
                )
    return "\n".join([*parts, "</svg>", ""])
