"""Draws a program's graph as SVG: steps from top to bottom, loops as boxes around steps.

A node's row is the length of the longest path to it; within a row, nodes are ordered by
the position of their sources.

Source: the layers of Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of
Hierarchical System Structures", 1981, with one pass of barycentres.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ipufeed.executable.hlo.hlo import Module
from ipufeed.executable.report.graph import KINDS, Graph, Node, graph_of
from ipufeed.render.text import escaped

CHARACTER, BOLD, LINE, PAD, GAP_X, GAP_Y = 6.6, 7.7, 16, 8, 18, 30
MOST_ROW = 6  # nodes side by side; further ones start another line of the row
COLOURS = {
    "product": ("#dbe7ff", "#2457b3"),
    "feed": ("#dff3e4", "#217a3c"),
    "loop": ("#f6f4ee", "#7a6a3a"),
    "reduction": ("#fde7d6", "#a4511a"),
    "memory": ("#ececef", "#62626c"),
    "elementwise": ("#f3e6f8", "#7b3a94"),
    "group": ("#ffffff", "#8a8a92"),
}


@dataclass(eq=False)
class _Placed:
    """A node with its position and size."""

    node: Node
    width: float
    height: float
    inside: list[_Drawing] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0


@dataclass(eq=False)
class _Drawing:
    """A graph whose nodes have positions."""

    graph: Graph
    width: float = 0.0
    height: float = 0.0
    placed: list[_Placed] = field(default_factory=list)


def draw(module: Module) -> str:
    """Returns the SVG of a program, with a legend."""
    drawing = _place(graph_of(module.entry, "program"))
    legend, right = _draw_legend()
    top = 34 + PAD
    width = max(drawing.width + 2 * PAD, right)
    height = drawing.height + top + PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        'font-family="system-ui, sans-serif" font-size="12">',
        "<title>The compiled program</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        *legend,
        *_draw_graph(drawing, PAD, top),
        "</svg>",
    ]
    return "\n".join(parts)


def _place(graph: Graph) -> _Drawing:
    drawing = _Drawing(graph)
    placed = {id(node): _measured(node) for node in graph.nodes}
    drawing.placed = list(placed.values())
    for row in _rows_of(graph):
        members = [placed[id(node)] for node in row]
        members.sort(key=lambda each: _middle_of_sources(each, placed))
        for start in range(0, len(members), MOST_ROW):
            line = members[start : start + MOST_ROW]
            x = 0.0
            for each in line:
                each.x, each.y = x, drawing.height
                x += each.width + GAP_X
            drawing.width = max(drawing.width, x - GAP_X)
            drawing.height += max(each.height for each in line) + GAP_Y
    drawing.height = max(0.0, drawing.height - GAP_Y)
    _centre_lines(drawing)
    return drawing


def _centre_lines(drawing: _Drawing) -> None:
    lines: dict[float, list[_Placed]] = {}
    for each in drawing.placed:
        lines.setdefault(each.y, []).append(each)
    for line in lines.values():
        right = max(each.x + each.width for each in line)
        for each in line:
            each.x += (drawing.width - right) / 2


def _measured(node: Node) -> _Placed:
    """Returns a node with its size, and with the positions of the nodes inside."""
    text = max(len(node.title) * BOLD, len(node.detail) * CHARACTER) + 2 * PAD
    inside = [_place(graph) for graph in node.inside]
    if not inside:
        return _Placed(node, max(text, 90), 2 * LINE + 2 * PAD)
    width = sum(each.width + 2 * PAD for each in inside) + PAD
    height = max(each.height for each in inside)
    return _Placed(node, max(text, width), height + 3 * LINE + 3 * PAD, inside)


def _rows_of(graph: Graph) -> list[list[Node]]:
    """Groups nodes by the length of the longest path to them."""
    ranks: dict[int, int] = {}
    rows: list[list[Node]] = []
    for node in graph.nodes:  # sources come first
        rank = max((ranks.get(id(each), -1) + 1 for each in node.sources), default=0)
        ranks[id(node)] = rank
        while len(rows) <= rank:
            rows.append([])
        rows[rank].append(node)
    return rows


def _middle_of_sources(each: _Placed, placed: dict[int, _Placed]) -> float:
    """Returns the mean horizontal position of a node's sources."""
    sources = [placed[id(node)] for node in each.node.sources]
    if not sources:
        return 0.0
    return sum(source.x + source.width / 2 for source in sources) / len(sources)


def _draw_legend() -> tuple[list[str], float]:
    """Returns the legend and where it ends."""
    parts, x = [], float(PAD)
    for kind in KINDS:
        fill, stroke = COLOURS[kind]
        parts.append(
            f'<rect x="{x:.0f}" y="10" width="14" height="14" rx="3" fill="{fill}" '
            f'stroke="{stroke}"/>'
            f'<text x="{x + 20:.0f}" y="21" fill="#333">{kind}</text>'
        )
        x += 34 + len(kind) * BOLD
    return parts, x


def _draw_graph(drawing: _Drawing, x: float, y: float) -> list[str]:
    at = {id(each.node): each for each in drawing.placed}
    parts = []
    for each in drawing.placed:
        for source in each.node.sources:
            parts.append(_draw_edge(at[id(source)], each, x, y))
    for each in drawing.placed:
        parts += _draw_node(each, x, y)
    return parts


def _draw_edge(source: _Placed, target: _Placed, x: float, y: float) -> str:
    from_x, from_y = x + source.x + source.width / 2, y + source.y + source.height
    to_x, to_y = x + target.x + target.width / 2, y + target.y
    bend = max(10.0, (to_y - from_y) / 2)
    return (
        f'<path d="M{from_x:.1f} {from_y:.1f}C{from_x:.1f} {from_y + bend:.1f} '
        f'{to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}" fill="none" '
        'stroke="#9a9aa4"/>'
    )


def _draw_node(each: _Placed, x: float, y: float) -> list[str]:
    """Draws a box with two lines of text, or with the graphs inside a loop."""
    fill, stroke = COLOURS[each.node.kind]
    left, top = x + each.x, y + each.y
    dash = ' stroke-dasharray="4 3"' if each.node.kind == "group" else ""
    parts = [
        "<g>",
        f"<title>{escaped(each.node.tip)}</title>",
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{each.width:.1f}" '
        f'height="{each.height:.1f}" rx="5" fill="{fill}" stroke="{stroke}"{dash}/>',
        text(each.node.title, left + PAD, top + PAD + 12, stroke, bold=True),
        text(each.node.detail, left + PAD, top + PAD + 12 + LINE, "#444"),
    ]
    inside_x = left + PAD
    for drawing in each.inside:
        inside_y = top + 3 * LINE + PAD
        parts.append(text(drawing.graph.title, inside_x, inside_y - 2, "#777"))
        parts += _draw_graph(drawing, inside_x, inside_y + PAD)
        inside_x += drawing.width + 2 * PAD
    return [*parts, "</g>"]


def text(what: str, x: float, y: float, colour: str, bold: bool = False) -> str:
    """Draws a line of text."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{weight}>{escaped(what)}</text>'
    )
