"""Metrics of an evaluation: on the IPU, whose last values count, or on the host.

Each gets what the program enqueues for each step, with all steps and replicas stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from ipufeed.device.program.shard_queries import dependencies
from ipufeed.tf_types import Nest, Operation, Session, Tensor


class Metrics(Protocol):
    """Metrics that are updated with the results of steps."""

    def add(self, session: Session, results: Nest) -> None:
        """Adds the results of some steps: arrays [steps, ...]."""

    def values(self, session: Session) -> dict[str, Any]:
        """Returns the value of each metric."""


class DeviceMetrics:
    """Metrics whose values the program computes after each step: the last ones count.

    Args:
        replicated: Whether the results have an axis for replicas. Each has variables of
            its own; the metrics are then the means of the replicas'.
    """

    def __init__(self, replicated: bool) -> None:
        self._replicated = replicated
        self._last: dict[str, Any] = {}

    def add(self, session: Session, results: Nest) -> None:
        """See Metrics; `results` is a dict from a name to the values of the steps."""
        del session
        for name, values in results.items():
            if len(values):
                last = values[-1]
                self._last[name] = np.mean(last, axis=0) if self._replicated else last

    def values(self, session: Session) -> dict[str, Any]:
        """See Metrics."""
        del session
        return self._last


class HostMetrics:
    """Metrics that the host updates with the program's tensors of each step.

    Args:
        function: Gets the tensors of a step, on the host, and returns a dict from a name
            to a metric.
        specs: The specs of its arguments: a list or a dict.
        replicated: Whether the results have an axis for replicas: each replica's tensors
            are one step.

    Raises:
        TypeError: The function does not return a dict of metrics.
    """

    def __init__(
        self, function: Callable[..., Any], specs: Nest, replicated: bool
    ) -> None:
        self._replicated = replicated
        with tf.device("/device:CPU:0"):
            self._inputs = tf.nest.map_structure(
                lambda spec: tf.compat.v1.placeholder(spec.dtype, spec.shape), specs
            )
            if isinstance(self._inputs, dict):
                metrics = function(**self._inputs)
            else:
                metrics = function(*self._inputs)
        if not isinstance(metrics, Mapping):
            raise TypeError(
                "The function of evaluation metrics must return a dict from a name to a "
                f"metric, got {type(metrics).__name__}."
            )
        pairs = {name: as_pair(name, metric) for name, metric in metrics.items()}
        self._values = {name: value for name, (value, _) in pairs.items()}
        self._updates = [update for _, update in pairs.values()]

    def add(self, session: Session, results: Nest) -> None:
        """See Metrics; `results` has the structure of the specs."""
        inputs = tf.nest.flatten(self._inputs)
        arrays = tf.nest.flatten(results)
        if self._replicated:
            arrays = [np.reshape(each, (-1, *each.shape[2:])) for each in arrays]
        for step in zip(*arrays, strict=True):
            session.run(self._updates, dict(zip(inputs, step, strict=True)))

    def values(self, session: Session) -> dict[str, Any]:
        """See Metrics."""
        found: dict[str, Any] = session.run(self._values)
        return found


def as_pair(name: str, metric: Any) -> tuple[Tensor, Tensor | Operation]:
    """Returns a metric as its value and the op that updates it.

    Args:
        name: Its name, for the error.
        metric: Such a pair, or a metric of Keras that was updated in this graph.

    Raises:
        TypeError: It is neither.
    """
    if hasattr(metric, "result") and getattr(metric, "updates", None):
        return metric.result(), tf.group(*metric.updates)
    got = type(metric).__name__
    if isinstance(metric, (list, tuple)):
        got += f" of {', '.join(type(each).__name__ for each in metric)}"
        # Also what a variable's assign_add returns: mean_iou and false_positives give it.
        if len(metric) == 2 and (
            isinstance(metric[1], tf.Operation) or tf.is_tensor(metric[1])
        ):
            return tf.convert_to_tensor(metric[0]), metric[1]
    elif hasattr(metric, "updates"):
        got += ", whose update_state has not been called"
    elif hasattr(metric, "update_state"):
        got += (
            " of Keras 3, which has no such op in a graph; use one of those, or set "
            "TF_USE_LEGACY_KERAS=1"
        )
    raise TypeError(
        f"The metric {name!r} must be a pair of a value and the op that updates it, as "
        f"tf.compat.v1.metrics returns, got {got}."
    )


def after_updates(metrics: Mapping[str, Any], first_op: int) -> dict[str, Tensor]:
    """Returns the values of metrics after their updates, in a step of a program.

    A value of tf.metrics reads variables in no order with the op that updates them.

    Args:
        metrics: Name -> metric.
        first_op: The number of the graph's operations before the step.
    """
    pairs = {name: as_pair(name, metric) for name, metric in metrics.items()}
    updates = [getattr(update, "op", update) for _, update in pairs.values()]
    step = set(tf.compat.v1.get_default_graph().get_operations()[first_op:])
    values = dependencies(value for value, _ in pairs.values())
    for reader in (values & step) - dependencies(updates):
        if reader.type == "ReadVariableOp":
            reader._add_control_inputs(updates)
    with tf.control_dependencies(updates):
        return {name: tf.identity(value) for name, (value, _) in pairs.items()}
