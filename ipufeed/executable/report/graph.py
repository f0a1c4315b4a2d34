"""A program as a graph that a person can take in: steps, and what they pass on.

    Computation --> Node, Node, Node(inside=Graph of the loop's body) --> Edge

Instructions that do nothing (tuples, bitcasts, parameters) are left out; what goes
through them goes straight to where it is used. Where there are more steps than one can
look at, neighbours with little to do are drawn as one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ipufeed.executable.hlo.hlo import Computation, Instruction
from ipufeed.executable.report.cost import trip_count
from ipufeed.executable.report.memory import own_source
from ipufeed.executable.report.profile import kind_of
from ipufeed.executable.report.work import FREE, step_work

MOST_NODES = 48
MOST_LABEL = 34

# What an instruction is, for its colour.
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
MOVING = (
    "broadcast",
    "concatenate",
    "copy",
    "dynamic-slice",
    "dynamic-update-slice",
    "gather",
    "iota",
    "pad",
    "reshape",
    "reverse",
    "slice",
    "transpose",
)


@dataclass(eq=False)
class Node:
    """A step, a loop, or several steps drawn as one.

    Attributes:
        title: What it is.
        detail: Of what shape, or what of.
        kind: One of KINDS.
        inside: What a loop or branch executes.
        tip: Its full description.
        sources: The nodes whose results it takes.
    """

    title: str
    detail: str
    kind: str
    tip: str
    inside: list[Graph] = field(default_factory=list, repr=False)
    sources: list[Node] = field(default_factory=list, repr=False)


@dataclass(eq=False)
class Graph:
    """A computation: its nodes, those that are used first.

    Attributes:
        title: What a person calls it.
        nodes: All.
    """

    title: str
    nodes: list[Node] = field(default_factory=list)


def graph_of(computation: Computation, title: str) -> Graph:
    """The graph of a computation, and of what it calls."""
    shown = [each for each in computation.instructions if is_step(each)]
    groups = grouped(shown)
    nodes: dict[int, Node] = {}
    graph = Graph(title)
    for group in groups:
        node = node_of(group[0]) if len(group) == 1 else group_node(group)
        graph.nodes.append(node)
        for each in group:
            nodes[each.id] = node
    for group in groups:
        node = nodes[group[0].id]
        for each in group:
            for source in steps_behind(each, nodes):
                if source is not node and source not in node.sources:
                    node.sources.append(source)
    return graph


def is_step(one: Instruction) -> bool:
    """Whether there is anything to draw."""
    return one.opcode not in FREE


def steps_behind(one: Instruction, nodes: dict[int, Node]) -> list[Node]:
    """The steps that an instruction depends on, through those that are left out."""
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


def weight(one: Instruction) -> float:
    """How much a step has to do; loops and feeds are always worth seeing."""
    if one.opcode in ("while", "conditional", "call") or one.target:
        return float("inf")
    work = step_work(one)
    return work.matrix_flops * 8 + work.vector_flops + work.moved_bytes


def grouped(shown: list[Instruction]) -> list[list[Instruction]]:
    """One step to a group if there are few, else neighbours of little weight together.

    Neighbours in the order of execution: a group of them depends on nothing that
    depends on it.
    """
    if len(shown) <= MOST_NODES:
        return [[each] for each in shown]
    heaviest = sorted(shown, key=weight, reverse=True)[: MOST_NODES // 2]
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


def kind(one: Instruction) -> str:
    """The kind of an instruction; a fusion is what counts in it."""
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


def node_of(one: Instruction) -> Node:
    """An instruction by itself."""
    name = one.op_name.rpartition("/")[2]
    title = name or kind_of(one)
    tip = "\n".join(
        part
        for part in (kind_of(one), one.op_name, str(one.shape), own_source(one))
        if part
    )
    node = Node(short(title), short(str(one.shape)), kind(one), tip)
    if one.opcode == "while":
        trips = trip_count(one)
        often = "count known when it runs" if trips is None else f"{trips} times"
        node.title = short(f"loop: {often}")
        body = one.called[0]
        node.inside = [graph_of(body, "body")]
    elif one.opcode in ("conditional", "call"):
        node.title = short(f"{one.opcode} {name}".strip())
        node.inside = [
            graph_of(each, f"branch {number}" if len(one.called) > 1 else "calls")
            for number, each in enumerate(one.called)
        ]
    return node


def group_node(group: list[Instruction]) -> Node:
    """Several drawn as one."""
    counts = Counter(kind_of(each) for each in group)
    words = [f"{name} x {count}" for name, count in counts.most_common()]
    return Node(
        f"{len(group)} smaller steps",
        short(", ".join(words)),
        GROUP,
        "\n".join(words[:30]),
    )


def short(text: str) -> str:
    """At most MOST_LABEL characters; the middle is what is left out."""
    if len(text) <= MOST_LABEL:
        return text
    half = (MOST_LABEL - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
