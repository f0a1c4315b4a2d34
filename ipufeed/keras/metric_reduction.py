"""How the metrics of several replicas become one value."""

from __future__ import annotations

import enum
from typing import Any

from ipufeed.parallel.collectives import ops as collectives


class ReplicatedMetricReductionMethod(enum.Enum):
    """What `fit` reports for a metric that each replica has a value of.

    NONE: the last replica's value. LIST: a vector of all values, in the order of the
    replicas. SUM, MEAN: their sum, their mean.

    Source: Graphcore's enumeration of this name.
    """

    NONE = 0
    LIST = 1
    SUM = 2
    MEAN = 3

    @classmethod
    def parse(cls, method: Any) -> ReplicatedMetricReductionMethod:
        """The method, from one of these or its name in letters of any case.

        Raises:
            ValueError: It is none of them.
        """
        if isinstance(method, cls):
            return method
        if isinstance(method, str) and method.upper() in cls.__members__:
            return cls[method.upper()]
        raise ValueError(
            f"Cannot parse {method} as a ReplicatedMetricReductionMethod. Valid values "
            f"are: {', '.join(cls.__members__)}."
        )


def reduce_on_host(method: ReplicatedMetricReductionMethod, rows: Any) -> Any:
    """The same of [replicas, *shape], after the program."""
    import tensorflow as tf

    kinds = ReplicatedMetricReductionMethod
    if method is kinds.LIST:
        return rows
    if method is kinds.NONE:
        return rows[-1]
    return tf.reduce_sum(rows, 0) if method is kinds.SUM else tf.reduce_mean(rows, 0)


def reduce_on_device(
    method: ReplicatedMetricReductionMethod, value: Any, replicas: int
) -> Any:
    """Builds the reduction of one metric, before each replica enqueues the result."""
    import tensorflow as tf

    kinds = ReplicatedMetricReductionMethod
    value = tf.convert_to_tensor(value)
    if method is kinds.LIST:
        return collectives.all_gather(value, replicas)
    if method is kinds.SUM:
        return collectives.cross_replica_sum(value)
    if method is kinds.MEAN:
        if not value.dtype.is_floating:
            value = tf.cast(value, tf.float32)
        return collectives.cross_replica_mean(value)
    return value
