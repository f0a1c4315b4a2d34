"""Colours the nodes of a program's graph by the IPU on which they are.

Source: XLA's hlo_graph_dumper.cc, whose colours for --xla_hlo_graph_sharding_color these
are. There each shard gets the next colour; here each IPU always has the same one.
"""

from __future__ import annotations

import re

# Of an IPU's fill, border and text; there are 13, so that IPU 13 has that of IPU 0.
_COLOURS = (
    ("#bbdefb", "#8aacc8", "black"),
    ("#bcaaa4", "#8c7b75", "black"),
    ("#1565c0", "#003c8f", "white"),
    ("#2e7d32", "#005005", "white"),
    ("#ffb74d", "#c88719", "black"),
    ("#b71c1c", "#7f0000", "white"),
    ("#cfd8dc", "#9ea7aa", "black"),
    ("#c8e6c9", "#97b498", "black"),
    ("#ffe0b2", "#cbae82", "black"),
    ("#e1bee7", "#af8eb5", "black"),
    ("#ffcdd2", "#cb9ca1", "black"),
    ("white", "#9e9e9e", "black"),
    ("#fff9c4", "#cbc693", "black"),
)
_NONE = 'style="filled,dashed", fontcolor="black", color="#757575", fillcolor="white"'
_NODE = re.compile(
    r'^(?P<id>\d+) \[label=<(?P<label>.*?)>, shape=\w+, tooltip="[^"]*", '
    r'(?P<style>style="[^"]*", fontcolor="[^"]*", color="[^"]*", fillcolor="[^"]*")\];$',
    re.MULTILINE | re.DOTALL,
)
_EDGE = re.compile(r"^(\d+) -> (\d+) \[", re.MULTILINE)
_SHARD = re.compile(r"sharding=\{maximal device=(\d+)\}")


def coloured(dot: str) -> str:
    """Returns a graph of `hlo_dot` with a colour for each IPU.

    A step without a shard is on the IPU of its first user, else of its first operand, as
    in Graphcore's compiler; where there are no shards its border is dashed.
    """
    shards = {}
    for node in _NODE.finditer(dot):
        found = _SHARD.search(node["label"])
        if found is not None:
            shards[node["id"]] = int(found[1])
    edges = _EDGE.findall(dot)
    _pass_on(shards, [(user, operand) for operand, user in edges])
    _pass_on(shards, edges)

    def drawn(node: re.Match[str]) -> str:
        text, style = node[0], _NONE
        if node["id"] in shards:
            fill, border, font = _COLOURS[shards[node["id"]] % len(_COLOURS)]
            style = (
                f'style="filled", fontcolor="{font}", color="{border}", '
                f'fillcolor="{fill}"'
            )
        return text[: -len(node["style"]) - 2] + style + "];"

    return _NODE.sub(drawn, dot)


def _pass_on(shards: dict[str, int], pairs: list[tuple[str, str]]) -> None:
    """Gives nodes without a shard that of a neighbour: the first of each pair's."""
    following: dict[str, list[str]] = {}
    for known, other in pairs:
        following.setdefault(known, []).append(other)
    left = list(shards)
    for node in left:  # grows while it is read
        for other in following.get(node, ()):
            if other not in shards:
                shards[other] = shards[node]
                left.append(other)
