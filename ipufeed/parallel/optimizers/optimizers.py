"""Optimizers around another one: over replicas, over shards, with mapped gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipufeed.device.program.sharding import propagate_sharding
from ipufeed.parallel.collectives.ops import cross_replica_mean, cross_replica_means
from ipufeed.parallel.optimizers.gradient_mapping import GradientMapping
from ipufeed.parallel.optimizers.wrapper import IpuOptimizer


class CrossReplicaOptimizer(IpuOptimizer):
    """Updates with the mean of all replicas' gradients, so that they stay the same.

        optimizer = CrossReplicaOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(loss)

    Args:
        opt: A TensorFlow 1 optimizer.
        name: Of its ops.

    Raises:
        ValueError: `opt` is a Keras optimizer; docs/pipelines.md has what to do with one.

    Source: Graphcore's optimizer of this name. The replicas meet once for all gradients.
    """

    _for_keras = (
        " A Keras optimizer adds the gradients of the replicas by itself in an "
        "IPUStrategy: for their mean divide the loss by the number of replicas "
        "(docs/pipelines.md)."
    )

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """The op that all-reduces the gradients and updates the variables."""
        pairs = list(grads_and_vars)
        dense = [dense_gradient(gradient) for gradient, _ in pairs]
        means = iter(cross_replica_means([each for each in dense if each is not None]))
        pairs = [
            (None if gradient is None else next(means), variable)
            for gradient, (_, variable) in zip(dense, pairs, strict=True)
        ]
        return super().apply_gradients(pairs, global_step, name)


def apply_cross_replica_op_single(grad: Any, var: Any) -> tuple[Any, Any]:
    """Gives (the gradient's mean over the replicas, var); a gradient None stays."""
    dense = dense_gradient(grad)
    return (None if dense is None else cross_replica_mean(dense), var)


def apply_cross_replica_op(grads_and_vars: Any) -> list[tuple[Any, Any]]:
    """Gives apply_cross_replica_op_single of each pair of a gradient and a variable."""
    return [apply_cross_replica_op_single(*pair) for pair in grads_and_vars]


class ShardedOptimizer(IpuOptimizer):
    """Puts gradients and updates into the shards of what they belong to.

    Args:
        optimizer: A TensorFlow 1 optimizer.

    Raises:
        ValueError: `optimizer` is a Keras optimizer.

    Source: Graphcore's optimizer of this name.
    """

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer, "ShardedOptimizer")

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The gradients, each in the shard of its op."""
        kwargs["colocate_gradients_with_ops"] = True
        gradients = super().compute_gradients(*args, **kwargs)
        propagate()
        return gradients

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """The op that updates the variables, each in its shard."""
        update = super().apply_gradients(grads_and_vars, global_step, name)
        propagate()
        return update


class MapGradientOptimizer(IpuOptimizer):
    """Changes gradients as soon as they are computed.

        decayed = MapGradientOptimizer(optimizer, lambda gradient, variable:
                                       gradient + 0.01 * variable)

    Around it a gradient accumulation optimizer accumulates what the function returns. To
    change what has been accumulated, wrap with MapGradientOptimizerInvertedChaining.

    Args:
        wrapped_optimizer: A TensorFlow 1 optimizer.
        gradient_mapping_function: Takes a gradient and its variable, and returns the
            gradient to use. It is not called for variables without a gradient.
        name: Of its ops.

    Raises:
        TypeError: The function cannot be called.
        ValueError: `wrapped_optimizer` is a Keras optimizer.

    Source: Graphcore's optimizer of this name.
    """

    def __init__(
        self,
        wrapped_optimizer: Any,
        gradient_mapping_function: Callable[[Any, Any], Any],
        name: str | None = None,
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self._mapped = GradientMapping(gradient_mapping_function)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The mapped gradients."""
        return self._mapped(super().compute_gradients(*args, **kwargs))


class MapGradientOptimizerInvertedChaining(MapGradientOptimizer):
    """Changes gradients right before the wrapped optimizer applies them.

    Inside a gradient accumulation optimizer it maps what has been accumulated, such as with
    a cast from the accumulators' dtype to the variable's.

    Args, Raises, Source: See MapGradientOptimizer.
    """

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The wrapped optimizer's gradients, as they are."""
        return IpuOptimizer.compute_gradients(self, *args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """The op that updates the variables with the mapped gradients."""
        return super().apply_gradients(self._mapped(grads_and_vars), global_step, name)


def dense_gradient(gradient: Any) -> Any:
    """A gradient as a tensor: those of embeddings are slices; None stays None."""
    return None if gradient is None else tf.convert_to_tensor(gradient)


def propagate() -> None:
    """Shards for the ops of the graph that is being built."""
    if not tf.executing_eagerly():
        propagate_sharding(tf.compat.v1.get_default_graph())
