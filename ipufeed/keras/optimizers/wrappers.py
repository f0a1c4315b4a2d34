"""Optimizers that wrap a Keras one: over replicas, mapped or summed gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from ipufeed.device.program.strategy import current_strategy
from ipufeed.device.system.system import require_usable
from ipufeed.keras.layers.in_use import keras
from ipufeed.keras.optimizers.accumulating import accumulated_update
from ipufeed.no_effect import no_effect
from ipufeed.parallel.collectives import ops as collectives
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
    GradientMapping,
    check_dtype,
    check_wrapper,
    name_of,
)
from ipufeed.parallel.optimizers.optimizers import dense_gradient
from ipufeed.parallel.optimizers.outside_variables import variables_outside
from ipufeed.tf_patches.frozen_keras import is_legacy
from ipufeed.tf_types import Config, DType, GradAndVar, Optimizer, Tensor, Variable

_Optimizer: Any = keras.optimizers.Optimizer
KINDS: tuple[Any, ...] = (_Optimizer,)
if is_legacy():
    KINDS = (_Optimizer, keras.optimizers.legacy.Optimizer)


@keras.utils.register_keras_serializable("ipufeed")
class IpuOptimizer(_Optimizer):  # type: ignore[misc]
    """Delegates to the wrapped optimizer; subclasses override a part.

    Args:
        opt: A Keras optimizer.
        name: Its name. Default: that of the class.

    Raises:
        TypeError: `name` is not a str.
        ValueError: `opt` is not a Keras optimizer.

    Source: Graphcore's class of this name.
    """

    def __init__(self, opt: Optimizer, name: str | None = None) -> None:
        check_wrapper(name)
        if not isinstance(opt, KINDS):
            raise ValueError(
                f"{type(self).__name__} wraps Keras optimizers, got "
                f"{type(opt).__module__}.{type(opt).__name__}. "
                "ipufeed.optimizers has the one for TensorFlow 1 optimizers."
            )
        name = name or type(self).__name__
        if is_legacy():
            super().__init__(name=name)
        else:
            super().__init__(learning_rate=0.0, name=name)
        self.inner_optimizer = opt

    # ---- Overridden by subclasses

    def map_each(self, pairs: list[GradAndVar]) -> list[GradAndVar]:
        """Maps the gradients of a mini-batch."""
        inner = getattr(self.inner_optimizer, "map_each", None)
        return pairs if inner is None else inner(pairs)

    def map_last(self, pairs: list[GradAndVar]) -> list[GradAndVar]:
        """Maps the gradients of an update, of all its mini-batches."""
        return pairs

    # ---- Called by programs that accumulate (keras/programs.py, accumulating.py)

    def apply_accumulated(self, pairs: Iterable[GradAndVar]) -> object:
        """Updates the weights with gradients that `map_each` has mapped."""
        inner = self.inner_optimizer
        apply = getattr(inner, "apply_accumulated", inner.apply_gradients)
        return apply(self.map_last(list(pairs)))

    # ---- Called by Keras

    def apply_gradients(
        self, grads_and_vars: Iterable[GradAndVar], *args: object, **kwargs: object
    ) -> Any:
        """Updates the weights; see keras.optimizers.Optimizer."""
        del args, kwargs  # of the wrapped optimizer
        pairs = list(grads_and_vars)
        if not self.built:
            self.build([variable for _, variable in pairs])
        return self.apply_accumulated(self.map_each(pairs))

    def apply(
        self, grads: list[Tensor], trainable_variables: list[Variable] | None = None
    ) -> None:
        """Updates the weights; see keras.optimizers.Optimizer."""
        if trainable_variables is None:
            trainable_variables = self.inner_optimizer._trainable_variables
        self.apply_gradients(zip(grads, trainable_variables, strict=True))

    def build(self, var_list: list[Variable]) -> None:
        """Creates the wrapped optimizer's state."""
        inner = self.inner_optimizer
        if is_legacy():
            build = "build" if hasattr(inner, "build") else "_create_all_weights"
            getattr(inner, build)(var_list)
            self._built = True
        else:
            if not inner.built:
                inner.build(var_list)
            super().build(var_list)

    if is_legacy():
        built = property(lambda self: getattr(self, "_built", False))

    @property
    def variables(self) -> list[Variable]:
        """The wrapped optimizer's state."""
        found = self.inner_optimizer.variables
        # In tf_keras before 2.11 it is a method.
        is_method = callable(found) and not isinstance(found, list)
        variables: list[Variable] = found() if is_method else found
        return variables

    @property
    def iterations(self) -> Variable:
        """The number of updates so far."""
        return self.inner_optimizer.iterations

    @iterations.setter
    def iterations(self, variable: Variable) -> None:
        self.inner_optimizer.iterations = variable

    @property
    def learning_rate(self) -> Variable:
        """The wrapped optimizer's learning rate."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: object) -> None:
        # Keras's constructor sets one, before there is a wrapped optimizer.
        if "inner_optimizer" in self.__dict__:
            self.inner_optimizer.learning_rate = learning_rate

    lr = learning_rate

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Scales the loss as the wrapped optimizer expects it."""
        return self.inner_optimizer.scale_loss(loss)

    def finalize_variable_values(self, var_list: list[Variable]) -> None:
        """See keras.optimizers.Optimizer."""
        if hasattr(self.inner_optimizer, "finalize_variable_values"):
            self.inner_optimizer.finalize_variable_values(var_list)

    def get_config(self) -> Config:
        """See keras.optimizers.Optimizer."""
        return {
            "name": self.name,
            "opt": keras.optimizers.serialize(self.inner_optimizer),
        }

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: Config | None = None
    ) -> IpuOptimizer:
        """See keras.optimizers.Optimizer."""
        opt = keras.optimizers.deserialize(config["opt"], custom_objects=custom_objects)
        return cls(**{**config, "opt": opt})


@keras.utils.register_keras_serializable("ipufeed")
class CrossReplicaOptimizer(IpuOptimizer):
    """Updates with the mean of the replicas' gradients instead of their sum.

    Args:
        opt: A Keras optimizer, which alone sums the gradients in an IPUStrategy.
        name: Its name.

    Raises:
        TypeError: `name` is not a str.
        ValueError: `opt` is not a Keras optimizer.

    Source: Graphcore's optimizer of this name.
    """

    def map_last(self, pairs: list[GradAndVar]) -> list[GradAndVar]:
        """Divides the gradients by the number of replicas."""
        return _over_replicas(pairs)


@keras.utils.register_keras_serializable("ipufeed")
class MapGradientOptimizer(IpuOptimizer):
    """Maps the gradients of each mini-batch, on each replica.

    Args:
        wrapped_optimizer: A Keras optimizer.
        gradient_mapping_function: Takes a gradient and its variable, and returns the
            gradient to use. It is not called for variables without a gradient.
        name: Its name.

    Raises:
        ValueError: `wrapped_optimizer` is not a Keras optimizer.
        TypeError: The function is not callable, or `name` not a str.

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

    def map_each(self, pairs: list[GradAndVar]) -> list[GradAndVar]:
        """Maps the gradients, after a wrapped optimizer has mapped them."""
        return self._mapped(super().map_each(pairs))

    def get_config(self) -> Config:
        """Not supported: a function has no config.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot be saved: its function has no config. Save the "
            "model with `save_weights`, or compile it with the wrapped optimizer first."
        )


class MapGradientOptimizerInvertedChaining(MapGradientOptimizer):
    """Maps the gradients directly before they are applied.

    They are sums over the mini-batches of an update, and over the replicas.

    Args, Raises, Source: See MapGradientOptimizer.
    """

    def map_each(self, pairs: list[GradAndVar]) -> list[GradAndVar]:
        """Returns the gradients of a mini-batch without a mapping."""
        return IpuOptimizer.map_each(self, pairs)

    def map_last(self, pairs: list[GradAndVar]) -> list[GradAndVar]:
        """Maps the sums; divides by the replicas, as the wrapped optimizer sums again."""
        if _replicas_are_several():
            pairs = [
                (
                    None if each is None else collectives.cross_replica_sum(each),
                    variable,
                )
                for each, variable in pairs
            ]
        return _over_replicas(self._mapped(pairs))


@keras.utils.register_keras_serializable("ipufeed")
class GradientAccumulationOptimizer(IpuOptimizer):
    """Accumulates the gradients of several mini-batches, in `fit` or a loop of your own.

    `compile` reads it as `set_gradient_accumulation_options` of these numbers. In the body
    of loops.repeat it is GradientAccumulationOptimizerV2 of ipufeed.optimizers.

    Args:
        opt: A Keras optimizer.
        num_mini_batches: Mini-batches of an update; must divide `steps_per_execution`.
        offload_weight_update_variables: No effect, with a warning if it is set.
        replicated_optimizer_state_sharding: Likewise.
        dtype: The dtype of the sums: a dtype, a function of the weight that returns one, or
            None for that of each weight. Its config has no function.
        reduction_method: SUM, MEAN or RUNNING_MEAN.
        name: Its name.

    Raises:
        TypeError: A flag is not a bool, `dtype` not a dtype, or `name` not a str.
        ValueError: `opt` is not a Keras optimizer, the number is not positive, or the
            method is unknown.
        tf.errors.FailedPreconditionError: When a program of your own runs: it is not
            applied in the body of a loop that runs a multiple of num_mini_batches.

    Source: Graphcore's optimizer of this name.
    """

    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: DType = None,
        reduction_method: GradientAccumulationReductionMethod | str = "sum",
        name: str | None = None,
    ) -> None:
        check_wrapper(
            name, offload_weight_update_variables, replicated_optimizer_state_sharding
        )
        super().__init__(opt, name)
        if (
            isinstance(num_mini_batches, bool)
            or not isinstance(num_mini_batches, int)
            or num_mini_batches < 1
        ):
            raise ValueError(
                f"`num_mini_batches` must be a positive int, got {num_mini_batches!r}."
            )
        for argument, given in (
            ("offload_weight_update_variables", offload_weight_update_variables),
            (
                "replicated_optimizer_state_sharding",
                replicated_optimizer_state_sharding,
            ),
        ):
            if given:
                no_effect(
                    f"GradientAccumulationOptimizer({argument}=)",
                    "its memory is the host's",
                )
        self.num_mini_batches = num_mini_batches
        self.sum_dtype = check_dtype(dtype, "dtype")
        self.reduction_method = GradientAccumulationReductionMethod.parse(
            reduction_method
        )

    def apply_gradients(
        self, grads_and_vars: Iterable[GradAndVar], *args: object, **kwargs: object
    ) -> Any:
        """Accumulates, and updates after the last mini-batch: in a loop's body.

        Raises:
            tf.errors.FailedPreconditionError: When the program runs: it is not in a loop,
                or that does not run a multiple of num_mini_batches.
        """
        del args, kwargs  # of the wrapped optimizer
        pairs = list(grads_and_vars)
        if not self.built:
            with variables_outside():
                self.build([variable for _, variable in pairs])
        return accumulated_update(self, self.map_each(pairs))

    def get_config(self) -> Config:
        """See keras.optimizers.Optimizer."""
        return {
            **super().get_config(),
            "num_mini_batches": self.num_mini_batches,
            "dtype": name_of(self.sum_dtype),
            "reduction_method": self.reduction_method.name,
        }


def _replicas_are_several() -> bool:
    """Whether a program for several replicas is being built."""
    strategy = current_strategy()
    if tf.executing_eagerly() or strategy is None:
        return False
    return require_usable(strategy.device_ordinal).num_ipus > 1


def _over_replicas(pairs: list[GradAndVar]) -> list[GradAndVar]:
    """Divides gradients by the number of replicas."""
    if not _replicas_are_several():
        return pairs
    count = collectives.cross_replica_sum(tf.constant(1.0))
    return [
        (None if each is None else each / tf.cast(count, each.dtype), variable)
        for each, variable in (
            (dense_gradient(each), variable) for each, variable in pairs
        )
    ]
