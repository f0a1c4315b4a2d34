"""A program as a graph of limited size: steps, and the results that they pass on.

    Computation --> Node, Node, Node(inside=Graph of the loop's body) --> Edge

Instructions without work (tuples, bitcasts, parameters) are left out: edges pass through
them. If a computation has more than MOST_NODES steps, neighbours with little work become
one node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ipufeed.executable.hlo.hlo import Computation, Instruction, opcodes
from ipufeed.executable.report.cost import trip_count
from ipufeed.executable.report.profile import kind_of
from ipufeed.executable.report.work import FREE, step_work
from ipufeed.render.text import short

MOST_NODES = 48
MOST_LABEL = 34

# The kinds of nodes, which have different colours.
PRODUCT, FEED, LOOP, REDUCTION, MEMORY, OTHER, GROUP = KINDS = (
    "product",
    "feed",
    "loop",
    "reduction",
    "memory",
    "elementwise",
    "group",
)
REDUCING = ("reduce", "reduce-window", "scatter", "select-and-scatter", "sort")
MOVING = opcodes(
    "broadcast concatenate copy dynamic-slice dynamic-update-slice gather iota pad "
    "reshape reverse slice transpose"
)


@dataclass(eq=False)
class Node:
    """A step, a loop, or a group of steps.

    Attributes:
        title: First line of text.
        detail: Second line: the shape, or the steps of a group.
        kind: One of KINDS.
        inside: The graphs that a loop or branch executes.
        tip: The full description.
        sources: The nodes whose results it uses.
    """

    title: str
    detail: str
    kind: str
    tip: str
    inside: list[Graph] = field(default_factory=list, repr=False)
    sources: list[Node] = field(default_factory=list, repr=False)


@dataclass(eq=False)
class Graph:
    """The nodes of a computation, sources before their users.

    Attributes:
        title: The computation's role.
        nodes: The nodes.
    """

    title: str
    nodes: list[Node] = field(default_factory=list)


def graph_of(computation: Computation, title: str) -> Graph:
    """Returns the graph of a computation and of those that it calls."""
    shown = [each for each in computation.instructions if _is_step(each)]
    groups = _grouped(shown)
    nodes: dict[int, Node] = {}
    graph = Graph(title)
    for group in groups:
        node = _node_of(group[0]) if len(group) == 1 else _group_node(group)
        graph.nodes.append(node)
        for each in group:
            nodes[each.id] = node
    for group in groups:
        node = nodes[group[0].id]
        for each in group:
            for source in _steps_behind(each, nodes):
                if source is not node and source not in node.sources:
                    node.sources.append(source)
    return graph


def _is_step(one: Instruction) -> bool:
    return one.opcode not in FREE


def _steps_behind(one: Instruction, nodes: dict[int, Node]) -> list[Node]:
    """Returns the steps that an instruction depends on, also through omitted ones."""
    found, seen, todo = [], set(), list(reversed(one.operands))
    while todo:
        each = todo.pop()
        if each.id in seen:
            continue
        seen.add(each.id)
        if each.id in nodes:
            found.append(nodes[each.id])
        else:
            todo.extend(reversed(each.operands))
    return found


def _weight(one: Instruction) -> float:
    """Returns the weight of a step's work; infinite for loops and feeds, to show them."""
    if one.opcode in ("while", "conditional", "call") or one.target:
        return float("inf")
    work = step_work(one)
    return work.matrix_flops * 8 + work.vector_flops + work.moved_bytes


def _grouped(shown: list[Instruction]) -> list[list[Instruction]]:
    """Groups neighbouring steps of little weight, if there are more than MOST_NODES.

    Neighbours are adjacent in the order of execution, so that the graph stays acyclic.
    """
    if len(shown) <= MOST_NODES:
        return [[each] for each in shown]
    heaviest = sorted(shown, key=_weight, reverse=True)[: MOST_NODES // 2]
    alone = {each.id for each in heaviest}
    groups: list[list[Instruction]] = []
    for each in shown:
        if each.id in alone:
            groups.append([each])
        elif groups and groups[-1][0].id not in alone:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _kind(one: Instruction) -> str:
    """Returns the kind of an instruction; of a fusion, that of its main instruction."""
    if one.target.startswith("ipufeed_"):
        return FEED
    if one.opcode in ("while", "conditional", "call"):
        return LOOP
    name = kind_of(one)
    if "dot" in name or "convolution" in name or "matmul" in name:
        return PRODUCT
    if one.opcode in REDUCING or name.startswith("fusion (r"):
        return REDUCTION
    return MEMORY if one.opcode in MOVING else OTHER


def _node_of(one: Instruction) -> Node:
    name = one.op_name.rpartition("/")[2]
    title = name or kind_of(one)
    tip = "\n".join(
        part for part in (kind_of(one), one.op_name, str(one.shape), one.source) if part
    )
    node = Node(
        short(title, MOST_LABEL), short(str(one.shape), MOST_LABEL), _kind(one), tip
    )
    if one.opcode == "while":
        trips = trip_count(one)
        often = "count known when it runs" if trips is None else f"{trips} times"
        node.title = short(f"loop: {often}", MOST_LABEL)
        body = one.called[0]
        node.inside = [graph_of(body, "body")]
    elif one.opcode in ("conditional", "call"):
        node.title = short(f"{one.opcode} {name}".strip(), MOST_LABEL)
        node.inside = [
            graph_of(each, f"branch {number}" if len(one.called) > 1 else "calls")
            for number, each in enumerate(one.called)
        ]
    return node


def _group_node(group: list[Instruction]) -> Node:
    counts = Counter(kind_of(each) for each in group)
    words = [f"{name} x {count}" for name, count in counts.most_common()]
    return Node(
        f"{len(group)} smaller steps",
        short(", ".join(words), MOST_LABEL),
        GROUP,
        "\n".join(words[:30]),
    )
