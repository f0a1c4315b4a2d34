"""Names the functions of users' libraries in the error of a program that calls them.

The native core has the text of an exception of such a function, and not its name; the name
is in the program: the text of its IpufeedHostCall (ops/custom_ops.py writes it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tensorflow.python.framework import errors

from ipufeed.queues.xla_errors import own_text

# The text of ipufeed/cc/base/guard.cc for what a function throws.
_THROWN = re.compile(r"\b[Aa]n exception in (?:ipufeed_host_call|IpufeedHostCall)\b")


def explain_thrown(error: errors.OpError, texts: Iterable[str]) -> None:
    """Adds the functions that may have thrown an error to its message.

    Args:
        error: The error of a program. Another error than of a function is unchanged.
        texts: The texts of the program's calls of libraries.
    """
    if not _THROWN.search(own_text(error)):
        return
    found = []
    for text in texts:
        _, symbol, name, _, _, path = text.split("\0")
        found.append(f"{symbol} of {path} (op {name!r})")
    found = list(dict.fromkeys(found))
    if len(found) == 1:
        error._message += f"\nThe exception is of the user's function {found[0]}."
    elif found:
        error._message += (
            "\nThe exception is of one of the user's functions "
            f"{', '.join(found[:-1])} and {found[-1]}."
        )


def texts_of_function(context: Any, name: str | bytes) -> Iterator[str]:
    """Returns the texts of a function in TensorFlow's context, and of those it calls."""
    seen: set[str] = set()
    waiting = [name.decode() if isinstance(name, bytes) else name]
    while waiting:
        name = waiting.pop()
        if name in seen or not context.has_function(name):
            continue
        seen.add(name)
        nodes = context.get_function_def(name).node_def
        yield from _texts(nodes)
        waiting += _called(nodes)


def texts_of_graph(graph: Any) -> Iterator[str]:
    """Returns the texts of a version 1 graph, and of its functions."""
    definition = graph.as_graph_def()
    yield from _texts(definition.node)
    for function in definition.library.function:
        yield from _texts(function.node_def)


def _texts(nodes: Any) -> Iterator[str]:
    for node in nodes:
        if node.op == "IpufeedHostCall" and node.attr["kind"].s == b"library":
            text = node.attr["text"].s.decode(errors="replace")
            if text.count("\0") == 5:
                yield text


def _called(nodes: Any) -> Iterator[str]:
    for node in nodes:
        for value in node.attr.values():
            if value.func.name:
                yield value.func.name
            for each in value.list.func:
                yield each.name
