"""Reduces the metrics of several replicas to one value."""

from __future__ import annotations

import enum

from ipufeed.checks import as_member
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.tf_types import Tensor


class ReplicatedMetricReductionMethod(enum.Enum):
    """How the values of a metric on several replicas are reduced to one.

    NONE: the last replica's value. LIST: a vector of all values, in the order of the
    replicas. SUM, MEAN: their sum, their mean.

    Source: Graphcore's enumeration of this name.
    """

    NONE = 0
    LIST = 1
    SUM = 2
    MEAN = 3

    @classmethod
    def parse(cls, method: object) -> ReplicatedMetricReductionMethod:
        """Returns the method, given as a member or by its name in any case.

        Raises:
            ValueError: It is neither.
        """
        return as_member(cls, method)


def reduce_on_host(method: ReplicatedMetricReductionMethod, rows: Tensor) -> Tensor:
    """Reduces [replicas, *shape] on the host, after the program."""
    import tensorflow as tf

    kinds = ReplicatedMetricReductionMethod
    if method is kinds.LIST:
        return rows
    if method is kinds.NONE:
        return rows[-1]
    return tf.reduce_sum(rows, 0) if method is kinds.SUM else tf.reduce_mean(rows, 0)


def reduce_on_device(
    method: ReplicatedMetricReductionMethod, value: Tensor, replicas: int
) -> Tensor:
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
