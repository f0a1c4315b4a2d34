"""Optimizers that wrap another one: over replicas, over shards, mapped gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import tensorflow as tf

from ipufeed.device.program.sharding import propagate_sharding
from ipufeed.parallel.collectives.ops import cross_replica_mean, cross_replica_means
from ipufeed.parallel.optimizers.arguments import GradientMapping, as_pairs
from ipufeed.parallel.optimizers.wrapper import IpuOptimizer
from ipufeed.tf_types import GradAndVar, Operation, Optimizer, Tensor, Variable


class CrossReplicaOptimizer(IpuOptimizer):
    """Updates with the mean of the replicas' gradients, so that weights stay equal.

        optimizer = CrossReplicaOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(loss)

    Args:
        opt: A TensorFlow 1 optimizer.
        name: The name of its ops.

    Raises:
        ValueError: `opt` is a Keras optimizer; docs/pipelines.md has what to do with one.

    Source: Graphcore's optimizer of this name. One collective averages all gradients.
    """

    _for_keras = (
        " A Keras optimizer adds the gradients of the replicas by itself in an "
        "IPUStrategy: for their mean divide the loss by the number of replicas "
        "(docs/pipelines.md)."
    )

    def __init__(self, opt: Optimizer, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradAndVar],
        global_step: Variable = None,
        name: str | None = None,
    ) -> Operation:
        """Builds the op that all-reduces the gradients and updates the variables."""
        pairs = as_pairs(grads_and_vars)
        dense = [dense_gradient(gradient) for gradient, _ in pairs]
        means = iter(cross_replica_means([each for each in dense if each is not None]))
        pairs = [
            (None if gradient is None else next(means), variable)
            for gradient, (_, variable) in zip(dense, pairs, strict=True)
        ]
        return super().apply_gradients(pairs, global_step, name)


def apply_cross_replica_op_single(grad: Tensor, var: Variable) -> GradAndVar:
    """Returns (the gradient's mean over the replicas, var); None stays None."""
    dense = dense_gradient(grad)
    return (None if dense is None else cross_replica_mean(dense), var)


def apply_cross_replica_op(grads_and_vars: Iterable[GradAndVar]) -> list[GradAndVar]:
    """Applies apply_cross_replica_op_single to each pair."""
    return [apply_cross_replica_op_single(*pair) for pair in as_pairs(grads_and_vars)]


class ShardedOptimizer(IpuOptimizer):
    """Places gradients and updates in the shards of their ops and variables.

    Args:
        optimizer: A TensorFlow 1 optimizer.

    Raises:
        ValueError: `optimizer` is a Keras optimizer.

    Source: Graphcore's optimizer of this name.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer, "ShardedOptimizer")

    def compute_gradients(self, *args: object, **kwargs: object) -> list[GradAndVar]:
        """Builds the gradients, each in the shard of its op."""
        kwargs["colocate_gradients_with_ops"] = True
        gradients = super().compute_gradients(*args, **kwargs)
        _propagate()
        return gradients

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradAndVar],
        global_step: Variable = None,
        name: str | None = None,
    ) -> Operation:
        """Builds the op that updates the variables, each in its shard."""
        update = super().apply_gradients(grads_and_vars, global_step, name)
        _propagate()
        return update


class MapGradientOptimizer(IpuOptimizer):
    """Maps gradients as soon as they are computed.

        decayed = MapGradientOptimizer(optimizer, lambda gradient, variable:
                                       gradient + 0.01 * variable)

    A gradient accumulation optimizer around it accumulates the mapped gradients. To map
    the accumulated gradients, use MapGradientOptimizerInvertedChaining.

    Args:
        wrapped_optimizer: A TensorFlow 1 optimizer.
        gradient_mapping_function: Takes a gradient and its variable, and returns the
            gradient to use. It is not called for variables without a gradient.
        name: The name of its ops.

    Raises:
        TypeError: The function is not callable.
        ValueError: `wrapped_optimizer` is a Keras optimizer.

    Source: Graphcore's optimizer of this name.
    """

    def __init__(
        self,
        wrapped_optimizer: Optimizer,
        gradient_mapping_function: Callable[[Tensor, Variable], Tensor],
        name: str | None = None,
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self._mapped = GradientMapping(gradient_mapping_function)

    def compute_gradients(self, *args: object, **kwargs: object) -> list[GradAndVar]:
        """Builds the mapped gradients."""
        return self._mapped(super().compute_gradients(*args, **kwargs))


class MapGradientOptimizerInvertedChaining(MapGradientOptimizer):
    """Maps gradients directly before the wrapped optimizer applies them.

    Inside a gradient accumulation optimizer it maps the accumulated gradients, for example
    casts them from the accumulators' dtype to the variable's.

    Args, Raises, Source: See MapGradientOptimizer.
    """

    def compute_gradients(self, *args: object, **kwargs: object) -> list[GradAndVar]:
        """Builds the wrapped optimizer's gradients, without the mapping."""
        return IpuOptimizer.compute_gradients(self, *args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradAndVar],
        global_step: Variable = None,
        name: str | None = None,
    ) -> Operation:
        """Builds the op that updates the variables with the mapped gradients."""
        return super().apply_gradients(
            self._mapped(as_pairs(grads_and_vars)), global_step, name
        )


def dense_gradient(gradient: Tensor) -> Tensor:
    """Converts a gradient to a tensor (embeddings have slices); None stays None."""
    return None if gradient is None else tf.convert_to_tensor(gradient)


def _propagate() -> None:
    """Propagates shards in the graph that is being built."""
    if not tf.executing_eagerly():
        propagate_sharding(tf.compat.v1.get_default_graph())
