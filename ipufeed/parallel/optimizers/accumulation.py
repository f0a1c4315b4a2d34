"""Optimizers that accumulate gradients and update once in several mini-batches.

    iteration   0    1    2    3    4 ...        of loops.repeat, 4 mini-batches
    gradients   g0   +g1  +g2  +g3  g4           in an accumulator for each variable
    update                     x                 of the wrapped optimizer

The accumulators belong to the loop, and are not variables of the model: see accumulator.py.
The first mini-batch of each update overwrites them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ipufeed.checks import as_int, flags_checked
from ipufeed.device.program.training_loop import training_loop
from ipufeed.no_effect import no_effect
from ipufeed.parallel.optimizers.accumulator import Accumulator
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.optimizers.arguments import (
    as_pairs,
    check_dtype,
    check_sharded_state,
    dtype_of,
    names_the_cast,
)
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer, dense_gradient
from ipufeed.parallel.optimizers.wrapper import IpuOptimizer, accumulator_in
from ipufeed.queues.chain import put_token, take_token
from ipufeed.tf_types import DType, GradAndVar, Operation, Optimizer, Tensor, Variable

_v1: Any = tf.compat.v1

STATE = "the optimizer's state is in the host's memory anyway, whole"
SUM = Reduction.SUM


class GradientAccumulationOptimizerV2(IpuOptimizer):
    """Updates with the gradients of several mini-batches, as with one large batch.

        optimizer = GradientAccumulationOptimizerV2(
            tf.compat.v1.train.MomentumOptimizer(0.01, 0.9), num_mini_batches=8)

        def body(x, y):                       # loops.repeat(8 * updates, body, ...)
            return optimizer.minimize(loss(x, y))

    Args:
        opt: A TensorFlow 1 optimizer.
        num_mini_batches: Mini-batches of an update, at least 1. The number of iterations
            of the loop must be a multiple of it.
        offload_weight_update_variables: Whether the optimizer's state is kept in the host's
            memory between updates. It always is here: no effect, with a warning.
        replicated_optimizer_state_sharding: Whether the state is divided among the
            replicas: no effect, with a warning. It excludes
            `offload_weight_update_variables=False`.
        dtype: The accumulators' dtype: None for that of each variable, a floating-point
            dtype (TensorFlow's, NumPy's or its name), or a function of the variable that
            returns one. The wrapped optimizer gets gradients of this dtype.
        reduction_method: A GradientAccumulationReductionMethod or its name: SUM, MEAN or
            RUNNING_MEAN.
        name: The name of its ops and variables.

    Raises:
        ValueError: `opt` is a Keras optimizer, or accumulates gradients itself;
            num_mini_batches is less than 1; the method is unknown; state is sharded and
            not offloaded.
        TypeError: num_mini_batches is not an integer, `dtype` is not a dtype, or a flag
            is not a bool; in `apply_gradients`: the wrapped optimizer cannot apply
            gradients of `dtype`.
        tf.errors.FailedPreconditionError: When the program runs: it is not applied in the
            body of loops.repeat, or that does not run a multiple of num_mini_batches.

    Source: Graphcore's optimizer of this name.
    """

    @flags_checked
    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: DType = None,
        reduction_method: Reduction | str = SUM,
        name: str = "GradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(opt, name)
        check_sharded_state(
            replicated_optimizer_state_sharding,
            offload_weight_update_variables is not False,
        )
        for argument, given in (
            (
                "offload_weight_update_variables",
                offload_weight_update_variables is not None,
            ),
            (
                "replicated_optimizer_state_sharding",
                bool(replicated_optimizer_state_sharding),
            ),
        ):
            if given:
                no_effect(f"GradientAccumulationOptimizerV2({argument}=)", STATE)
        self._num_mini_batches = checked_number(num_mini_batches)
        check_accumulates_once(self, opt)
        self._dtype = check_dtype(dtype, "dtype")
        self._method = Reduction.parse(reduction_method)
        self._of_eager_mode: dict[object, Accumulator] = {}

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradAndVar],
        global_step: Variable = None,
        name: str | None = None,
    ) -> Operation:
        """Builds the op that accumulates, and updates after the last mini-batch."""
        pairs = [
            (self._of_accumulator_dtype(gradient, variable), variable)
            for gradient, variable in as_pairs(grads_and_vars)
        ]
        if self._num_mini_batches == 1:
            return self._apply(pairs, global_step, name)
        loop = training_loop()
        count = loop.require_multiple(self._num_mini_batches)
        if loop.iteration is None:  # `count` then fails the program when it runs
            with tf.control_dependencies([count]):
                return self._apply(pairs, global_step, name)
        position = loop.iteration % self._num_mini_batches
        stored: list[Tensor] = []
        accumulated = [
            (self._accumulate(gradient, variable, position, stored), variable)
            for gradient, variable in pairs
        ]
        first_token = take_token()

        def update() -> Tensor:
            put_token(first_token)  # orders the collectives here, too
            op = self._apply(accumulated, global_step, None)
            with tf.control_dependencies([op] if op is not None else []):
                return tf.identity(take_token())

        token = tf.cond(
            tf.equal(position, self._num_mini_batches - 1),
            update,
            lambda: tf.identity(first_token),
        )
        put_token(token)
        return tf.group(*stored, token, name=name or self.get_name())

    def _apply(
        self, pairs: list[GradAndVar], global_step: Variable, name: str | None
    ) -> Operation:
        with names_the_cast(pairs, "dtype"):
            return IpuOptimizer.apply_gradients(self, pairs, global_step, name)

    def _of_accumulator_dtype(self, gradient: Tensor, variable: Variable) -> Tensor:
        gradient = dense_gradient(gradient)
        if gradient is None:
            return None
        own = variable.dtype.base_dtype
        return tf.cast(
            gradient, dtype_of(self._dtype, variable, own, "dtype", "variable")
        )

    def _accumulate(
        self,
        gradient: Tensor,
        variable: Variable,
        position: Tensor,
        stored: list[Tensor],
    ) -> Tensor:
        """Returns the sum with this gradient; appends the op that stores it to `stored`."""
        if gradient is None:
            return None
        accumulator = self._accumulator(gradient, variable)
        sum_so_far = accumulator.value()
        if self._method is Reduction.RUNNING_MEAN:
            count = tf.cast(position, gradient.dtype)
            new = sum_so_far * (count / (count + 1)) + gradient / (count + 1)
        else:
            if self._method is Reduction.MEAN:
                gradient = gradient * (1 / self._num_mini_batches)
            new = sum_so_far + gradient
        # The sum of the last update is discarded.
        total = tf.where(tf.equal(position, 0), gradient, new)
        stored += accumulator.store(total)
        return total

    def _accumulator(self, gradient: Tensor, variable: Variable) -> Accumulator:
        """Returns a variable's accumulator; in eager mode the same in each iteration."""
        name = f"{variable.name.partition(':')[0]}_sum"
        if not tf.executing_eagerly():
            return Accumulator(
                variable.shape, gradient.dtype, training_loop(), name, variable.device
            )
        key = (variable.ref(), gradient.dtype)
        if key not in self._of_eager_mode:
            self._of_eager_mode[key] = Accumulator(
                variable.shape, gradient.dtype, training_loop(), name, variable.device
            )
        return self._of_eager_mode[key]


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """Accumulates on each of several replicas, and all-reduces the mean of their sums.

    The collective runs once for each update, and not for each mini-batch.

    Args, Raises: See GradientAccumulationOptimizerV2.

    Source: Graphcore's optimizer of this name.
    """

    @flags_checked
    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: DType = None,
        reduction_method: Reduction | str = SUM,
        name: str = "CrossReplicaGradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(
            CrossReplicaOptimizer(opt),
            num_mini_batches,
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            dtype,
            reduction_method,
            name,
        )


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """The older form, for gradient descent and momentum; it sums the gradients.

    Args:
        opt: A tf.compat.v1.train.GradientDescentOptimizer or MomentumOptimizer.
        num_mini_batches: See GradientAccumulationOptimizerV2.
        verify_usage: Whether any other optimizer is refused. Default: True.
        name: The name of its ops and variables.

    Raises:
        ValueError: See GradientAccumulationOptimizerV2; or `opt` is another optimizer.

    Source: Graphcore's optimizer of this name.
    """

    @flags_checked
    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        if verify_usage:
            refuse_others(opt, type(self).__name__)
        super().__init__(opt, num_mini_batches, name=name)


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """The older form on several replicas.

    Args, Raises, Source: See GradientAccumulationOptimizer.
    """

    @flags_checked
    def __init__(
        self,
        opt: Optimizer,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        if verify_usage:
            refuse_others(opt, type(self).__name__)
        super().__init__(CrossReplicaOptimizer(opt), num_mini_batches, name=name)


def refuse_others(opt: Optimizer, name: str) -> None:
    """Raises ValueError unless it is gradient descent or momentum."""
    known = (_v1.train.GradientDescentOptimizer, _v1.train.MomentumOptimizer)
    if isinstance(opt, known):
        return
    raise ValueError(
        f"{name} wraps tf.compat.v1.train.GradientDescentOptimizer and MomentumOptimizer, "
        f"got {type(opt).__name__}. {name}V2 wraps any, and `verify_usage=False` leaves "
        "this check out."
    )


def check_accumulates_once(
    outer: GradientAccumulationOptimizerV2, opt: Optimizer
) -> None:
    """Raises ValueError if both optimizers would count the iterations of one loop."""
    inner = accumulator_in(opt)
    if inner is None or outer._num_mini_batches == 1:
        return
    number = outer._num_mini_batches * inner._num_mini_batches
    raise ValueError(
        f"{type(outer).__name__} must not wrap a {type(inner).__name__}: both would count "
        "the iterations of one loop. Wrap the optimizer inside it, with "
        f"num_mini_batches={number} for an update of {outer._num_mini_batches} times "
        f"{inner._num_mini_batches} mini-batches."
    )


def checked_number(num_mini_batches: object) -> int:
    """Returns the number of mini-batches.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is not positive.
    """
    number = as_int("num_mini_batches", num_mini_batches)
    if number < 1:
        raise ValueError(f"num_mini_batches must be a positive number, got {number}.")
    return number
