"""The metrics of several replicas: kept between executions, and reduced to one value."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import tensorflow as tf

from ipufeed.checks import as_member
from ipufeed.device.program.strategy_contexts import outside_scope
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.tf_types import Tensor, Variable


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
    kinds = ReplicatedMetricReductionMethod
    if method is kinds.LIST:
        return rows
    if method is kinds.NONE:
        return rows[-1]
    if method is kinds.SUM:
        return tf.reduce_sum(rows, 0)
    return tf.reduce_mean(_as_float(rows), 0)


def reduce_on_device(
    method: ReplicatedMetricReductionMethod, value: Tensor, replicas: int
) -> Tensor:
    """Builds the reduction of one metric, before each replica enqueues the result."""
    kinds = ReplicatedMetricReductionMethod
    value = tf.convert_to_tensor(value)
    if method is kinds.LIST:
        return collectives.all_gather(value, replicas)
    if method is kinds.SUM:
        return collectives.cross_replica_sum(value)
    if method is kinds.MEAN:
        return collectives.cross_replica_mean(_as_float(value))
    return value


def _as_float(value: Tensor) -> Tensor:
    """Casts integers, whose mean TensorFlow would round down."""
    return value if value.dtype.is_floating else tf.cast(value, tf.float32)


@dataclass
class ReplicaMetrics:
    """Keeps the metrics of each replica from one execution to the next.

    A program starts with replica 0's variables on all replicas. Metrics must continue from
    the replica's own values: between executions they are kept as [replicas, *shape].

    Attributes:
        replicas: Their number.
        pairs: Each metric's variable, and the variable of all replicas' values.
    """

    replicas: int
    pairs: list[tuple[Variable, Variable]] = field(default_factory=list)

    @classmethod
    def of(cls, replicas: int, variables: list[Variable]) -> ReplicaMetrics:
        """Creates the variables, which tracing the program must not do.

        Not in the strategy's scope, in which several processes create variables together:
        one of them may evaluate alone.
        """
        if replicas == 1:
            return cls(replicas)
        pairs = []
        with outside_scope():
            for each in variables:
                with tf.device(each.device):
                    kept = tf.Variable(tf.stack([each] * replicas), trainable=False)
                pairs.append((each, kept))
        return cls(replicas, pairs)

    def begin_epoch(self) -> None:
        """Sets all replicas to the current values: those of reset metrics."""
        for variable, kept in self.pairs:
            kept.assign(tf.stack([variable] * self.replicas))

    def restore(self) -> None:
        """Builds the start of a program: each replica reads its own values."""
        if self.pairs:
            index = collectives.replication_index()
            for variable, kept in self.pairs:
                variable.assign(tf.gather(kept, index))

    def keep(self) -> None:
        """Builds the end of a program: all replicas' values are stored."""
        for variable, kept in self.pairs:
            kept.assign(collectives.all_gather(variable, self.replicas))
