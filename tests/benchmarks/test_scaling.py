"""`python -m benchmarks.scaling`: bends, tables and page; its figures are not judged."""

import sys
import xml.etree.ElementTree as ET

import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT))
from benchmarks.iterate import Cost
from benchmarks.scaling import Axis, Curve, __main__, size
from benchmarks.scaling.axes import memory
from benchmarks.scaling.bends import segments, sentences
from benchmarks.scaling.page import page, picture, table
from benchmarks.scaling.turns import in_turns

pytestmark = pytest.mark.long


def curve(*values, figure="wall", what="ours"):
    """Points at 1, 2, 4, ..., without spread."""
    return Curve(what, figure, "us", {2**i: (v,) * 3 for i, v in enumerate(values)})


AXIS = Axis(
    "Bytes of an element",
    "How it was done.",
    "bytes of an element",
    [curve(2, 2.1, 2, 4, 8, 16), curve(1, 1, 1, 2, 12, 8, figure="CPU")],
    {("ours", "grows"): "the copy is what grows"},
    ["one more"],
)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([5, 5.5, 5, 5], ["flat 1 8"]),
        ([5, 5, 10, 20], ["flat 1 2", "grows 2 8"]),
        ([20, 10, 5, 5.1], ["falls 1 4", "flat 4 8"]),
        ([4, 2, 4], ["falls 1 2", "grows 2 4"]),
        ([4], []),
    ],
)
def test_a_curve_is_cut_where_its_slope_changes(values, kinds):
    found = segments(curve(*values))

    assert [f"{each.kind} {each.begin} {each.end}" for each in found] == kinds


def test_what_lies_within_the_quartiles_is_not_a_change():
    noisy = Curve("ours", "wall", "us", {1: (4.0, 5.0, 9.0), 2: (4.5, 8.0, 9.0)})

    assert [each.kind for each in segments(noisy)] == ["flat"]


@pytest.mark.parametrize(("value", "kind"), [(1.4, "flat"), (2.0, "grows")])
def test_points_that_are_far_apart_may_differ_more(value, kind):
    """By half, not by more: the slope alone would call a doubling over three tens flat."""
    far = Curve("ours", "wall", "us", {1: (1.0,), 1000: (value,)})

    assert [each.kind for each in segments(far)] == [kind]


def test_a_bend_has_one_sentence_with_its_place_and_values():
    """Its reason, and the CPUs that were busy at its end, too."""
    assert sentences(AXIS) == [
        "ours: from 1 B to 4 B it stays at 2 to 2.1 us (0.5 CPUs busy at 4 B).",
        "ours, bend at 4 B: from 4 B to 32 B it grows in proportion to the bytes of an "
        "element, 2 to 16 us (0.5 CPUs busy at 32 B): the copy is what grows.",
        "one more",
    ]


@pytest.mark.parametrize(
    ("values", "pace"),
    [
        ([1, 1.5, 2], "grows more slowly than the"),
        ([1, 2, 4], "grows in proportion to the"),
        ([1, 4, 16], "grows faster than the"),
        ([4, 2, 1], "falls in proportion to the"),
        ([4, 3, 2.2], "falls with the"),
    ],
)
def test_the_pace_is_the_slope_on_logarithmic_axes(values, pace):
    axis = Axis("A", "B", "replicas", [curve(*values)])

    (text,) = sentences(axis)

    assert f"it {pace} replicas" in text


def test_a_table_has_a_row_for_each_figure_at_each_point():
    assert table(AXIS).splitlines()[2:6] == [
        "| 1 B | ours | wall | 2 us | 2 to 2 | 3 |",
        "| 1 B | ours | CPU | 1 us | 1 to 1 | 3 |",
        "| 2 B | ours | wall | 2.1 us | 2.1 to 2.1 | 3 |",
        "| 2 B | ours | CPU | 1 us | 1 to 1 | 3 |",
    ]


def test_a_plot_has_a_dot_for_each_point_of_the_first_figure():
    root = ET.fromstring(picture(AXIS))
    dots = [each for each in root.iter() if each.tag.endswith("circle")]
    heights = [float(dot.get("cy")) for dot in dots]

    assert len(dots) == 6
    assert heights[2] > heights[3] + 1
    assert heights[2] - heights[3] == pytest.approx(heights[4] - heights[5], abs=0.2)


def test_the_page_has_each_axis_with_its_plot(tmp_path):
    path = tmp_path / "performance" / "scaling.md"
    page(path, {"bytes": AXIS})
    text = path.read_text()

    assert "## Bytes of an element\n\nHow it was done.\n" in text
    assert "- ours, bend at 4 B: from" in text
    assert "![Bytes of an element](scaling-bytes.svg)" in text
    assert (path.parent / "scaling-bytes.svg").exists()
    assert "TensorFlow 2.21" in text


@pytest.mark.parametrize(
    ("count", "text"), [(64, "64 B"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB")]
)
def test_bytes_have_binary_units(count, text):
    assert size(count) == text


def test_all_points_are_measured_alternately():
    """There and back; the first calls are left out."""
    calls = []

    def run(x):
        calls.append(x)
        return Cost(wall=x * 1e-6, cpu=2e-6, copy=0.5e-6 if x == 2 else 0.0)

    found = in_turns({"ours": {x: lambda x=x: run(x) for x in (1, 2)}}, repeats=2)

    assert calls == [1, 2, 1, 2, 2, 1]
    assert [(each.figure, dict(each.points)) for each in found] == [
        ("wall", {1: pytest.approx((1, 1)), 2: pytest.approx((2, 2))}),
        ("CPU", {1: pytest.approx((2, 2)), 2: pytest.approx((2, 2))}),
        ("the copy", {1: (0.0, 0.0), 2: pytest.approx((0.5, 0.5))}),
    ]


def test_the_line_through_the_memory_has_its_constant():
    mib = float(memory.MIB)
    points = {mib * held: (1.5 * held + 3,) for held in (1, 2, 8)}
    curves = [
        Curve("ring of 1 MiB", "memory", "MiB", points),
        Curve("list of 1 MiB", "memory", "MiB", {mib: (1,), 9 * mib: (9,)}),
    ]

    assert memory.fitted(curves, "ring").startswith(
        "ring: the line through all medians is 1.500 x depth x bytes of an element + 3 MiB"
    )


@pytest.mark.process
def test_the_command_measures_axes_in_processes_of_their_own(monkeypatch, capfd):
    """Two of them, quickly: each point is in the table, with a sentence below it."""
    monkeypatch.setattr(
        "sys.argv", ["scaling", "--quick", "--only", "components", "depth"]
    )

    assert __main__.main() == 0
    out = capfd.readouterr().out
    for number in (1, 8, 64):
        for what in ("measuring op", "bare C++ loop", "infeed of a program"):
            assert f"| {number} | {what} | wall | " in out
            assert f"| {number} | {what} | CPU | " in out
    assert "| 255 | elements of 100 kB | wall | " in out
    assert "- measuring op: from 1 to " in out
    assert "- elements of 4 bytes: from 1 to " in out


@pytest.mark.parametrize("more", [["--quick"], ["--only", "depth"]])
def test_the_page_takes_all_axes_in_full(monkeypatch, capsys, more):
    monkeypatch.setattr("sys.argv", ["scaling", "--write", *more])

    with pytest.raises(SystemExit, match="2"):
        __main__.main()
    assert "--write takes all axes" in capsys.readouterr().err
