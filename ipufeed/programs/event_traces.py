"""What programs do with traces of events, of which a simulated IPU has none.

Programs for the releases that had them extract reports from `ipu_event_trace()` when they
end. Here the trace is empty and so are the reports; one warning says where reports are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from ipufeed.no_effect import warn_once
from ipufeed.programs.gen_ipu_ops import ipu_event_trace
from ipufeed.tf_types import Operation, Tensor


def extract_all_strings_from_event_trace(events: Iterable[Any]) -> str:
    """Returns "".

    Args:
        events: The value of `ipu_event_trace()`, which has no elements.

    Raises:
        TypeError: `events` cannot be iterated, such as a tensor that has not been run.
        ValueError: There are elements.
    """
    _check("extract_all_strings_from_event_trace", events)
    return ""


def extract_all_types_from_event_trace(events: Iterable[Any]) -> list[int]:
    """Returns no types. See extract_all_strings_from_event_trace."""
    return _check("extract_all_types_from_event_trace", events)


def extract_all_events(events: Iterable[Any]) -> list[Any]:
    """Returns no events. See extract_all_strings_from_event_trace."""
    return _check("extract_all_events", events)


def extract_all_io_events(events: Iterable[Any]) -> list[Any]:
    """Returns no events. See extract_all_strings_from_event_trace."""
    return _check("extract_all_io_events", events)


def extract_compile_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Returns no reports. See extract_all_strings_from_event_trace."""
    return _check("extract_compile_reports", events)


def extract_execute_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Returns no reports. See extract_all_strings_from_event_trace."""
    return _check("extract_execute_reports", events)


def extract_graph_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Returns no reports. See extract_all_strings_from_event_trace."""
    return _check("extract_graph_reports", events)


def extract_poplar_serialized_graphs(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Returns no graphs. See extract_all_strings_from_event_trace."""
    return _check("extract_poplar_serialized_graphs", events)


def get_ipu_reports() -> Tensor:
    """Returns `ipu_event_trace()`: a string tensor without elements."""
    _warn("get_ipu_reports")
    return ipu_event_trace()


def ipu_compile_summary(
    name: str,
    op_list: Operation | Tensor | Sequence[Operation | Tensor],
    collections: list[str] | None = None,
) -> Tensor:
    """Returns a summary, for version 1, of an empty trace.

    Args:
        name: The summary's name.
        op_list: The operations that run before the summary.
        collections: The graph's collections that get the summary. Default: that of all
            summaries.

    Raises:
        TypeError: `name` is not a str.
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a str, got {type(name).__name__} {name!r}.")

    _warn("ipu_compile_summary")
    before = op_list if isinstance(op_list, Sequence) else [op_list]
    with tf.device("/device:CPU:0"), tf.control_dependencies(before):
        return tf.compat.v1.summary.tensor_summary(
            name, ipu_event_trace(), collections=collections
        )


def _check(name: str, events: Iterable[Any]) -> list[Any]:
    try:
        found = len(list(events))
    except TypeError:  # also that of a tensor of a graph
        raise TypeError(
            "`events` must be the value of ipu_event_trace(), as Session.run returns it, "
            f"got {type(events).__name__} {events!r}."
        ) from None
    if found:
        raise ValueError(
            f"{name} takes the value of ipu_event_trace(), which has no elements on a "
            f"simulated IPU, got {found}."
        )
    _warn(name)
    return []


def _warn(name: str) -> None:
    warn_once(
        "events",
        "`%s` gives nothing on a simulated IPU: it has no events. For reports in files set "
        """POPLAR_ENGINE_OPTIONS='{"autoReport.all": "true"}'.""",
        name,
    )
