"""Optimizers that update once for several mini-batches.

    iteration   0    1    2    3    4 ...        of loops.repeat, 4 mini-batches
    gradients   g0   +g1  +g2  +g3  g4           in an accumulator for each variable
    update                     x                 of the wrapped optimizer

The accumulators belong to the loop, and not to the user's variables: see accumulator.py.
The first mini-batch of each update overwrites them.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.checks import flags_checked
from ipufeed.device.program.training_loop import training_loop
from ipufeed.no_effect import no_effect
from ipufeed.parallel.optimizers.accumulator import Accumulator
from ipufeed.parallel.optimizers.checks import check_sharded_state
from ipufeed.parallel.optimizers.dtypes import check_dtype, dtype_of, names_the_cast
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer, dense_gradient
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod,
)
from ipufeed.parallel.optimizers.wrapper import IpuOptimizer, accumulator_in
from ipufeed.queues.chain import put_token, take_token

_v1: Any = tf.compat.v1

STATE = "the optimizer's state is in the host's memory anyway, whole"
SUM = GradientAccumulationReductionMethod.SUM


class GradientAccumulationOptimizerV2(IpuOptimizer):
    """Updates with the gradients of several mini-batches, as one batch of them all would.

        optimizer = GradientAccumulationOptimizerV2(
            tf.compat.v1.train.MomentumOptimizer(0.01, 0.9), num_mini_batches=8)

        def body(x, y):                       # loops.repeat(8 * updates, body, ...)
            return optimizer.minimize(loss(x, y))

    Args:
        opt: A TensorFlow 1 optimizer.
        num_mini_batches: Mini-batches for one update, at least 1. The loop must run a
            multiple of it.
        offload_weight_update_variables: Whether the optimizer's state would be kept in the
            host's memory between updates. It is there anyway: no effect, with a warning.
        replicated_optimizer_state_sharding: Whether that would be divided among the
            replicas; likewise. It must not be with `offload_weight_update_variables=False`.
        dtype: Of the accumulators: None for that of each variable, a dtype of floating
            point (TensorFlow's, NumPy's or its name), or a function of the variable that
            returns one. The wrapped optimizer gets gradients of this dtype.
        reduction_method: A GradientAccumulationReductionMethod or its name. SUM adds the
            gradients up, MEAN and RUNNING_MEAN give their mean.
        name: Of its ops and variables.

    Raises:
        ValueError: `opt` is a Keras optimizer, or accumulates gradients itself;
            num_mini_batches is less than 1; another method; state that is to be sharded
            and not offloaded.
        TypeError: `dtype` is none, or a flag is not a bool; in `apply_gradients`: the
            wrapped optimizer cannot apply gradients of `dtype`.
        tf.errors.FailedPreconditionError: When the program runs: it is not applied in the
            body of loops.repeat, or that does not run a multiple of num_mini_batches.

    Source: Graphcore's optimizer of this name.
    """

    @flags_checked
    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Any = SUM,
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
        self._offload_weight_update_variables = offload_weight_update_variables
        self._replicated_optimizer_state_sharding = replicated_optimizer_state_sharding
        self._dtype = check_dtype(dtype, "dtype")
        self._method = GradientAccumulationReductionMethod.parse(reduction_method)
        self._of_eager_mode: dict[Any, Accumulator] = {}

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """The op that accumulates, and updates in the last mini-batch of an update."""
        pairs = [
            (self._of_accumulator_dtype(gradient, variable), variable)
            for gradient, variable in grads_and_vars
        ]
        if self._num_mini_batches == 1:
            return self._apply(pairs, global_step, name)
        loop = training_loop()
        count = loop.require_multiple(self._num_mini_batches)
        if loop.iteration is None:  # the program fails when it runs
            with tf.control_dependencies([count]):
                return self._apply(pairs, global_step, name)
        position = loop.iteration % self._num_mini_batches
        stored: list[Any] = []
        accumulated = [
            (self._accumulate(gradient, variable, position, stored), variable)
            for gradient, variable in pairs
        ]
        first_token = take_token()

        def update() -> Any:
            put_token(first_token)  # collectives here are in the chain, too
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

    def _apply(self, pairs: Any, global_step: Any, name: str | None) -> Any:
        """The op in which the wrapped optimizer updates with what was accumulated."""
        with names_the_cast(pairs, "dtype"):
            return IpuOptimizer.apply_gradients(self, pairs, global_step, name)

    def _of_accumulator_dtype(self, gradient: Any, variable: Any) -> Any:
        gradient = dense_gradient(gradient)
        if gradient is None:
            return None
        own = variable.dtype.base_dtype
        return tf.cast(
            gradient, dtype_of(self._dtype, variable, own, "dtype", "variable")
        )

    def _accumulate(
        self, gradient: Any, variable: Any, position: Any, stored: list[Any]
    ) -> Any:
        """What has been accumulated with this gradient; adds what stores it to `stored`."""
        if gradient is None:
            return None
        accumulator = self._accumulator(gradient, variable)
        sum_so_far = accumulator.value()
        if self._method is GradientAccumulationReductionMethod.RUNNING_MEAN:
            count = tf.cast(position, gradient.dtype)
            new = sum_so_far * (count / (count + 1)) + gradient / (count + 1)
        else:
            if self._method is GradientAccumulationReductionMethod.MEAN:
                gradient = gradient * (1 / self._num_mini_batches)
            new = sum_so_far + gradient
        # What the last update has left is not read.
        total = tf.where(tf.equal(position, 0), gradient, new)
        stored += accumulator.store(total)
        return total

    def _accumulator(self, gradient: Any, variable: Any) -> Accumulator:
        """That of a variable: in eager mode the same in each iteration."""
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
    """The same on several replicas, which all-reduce the mean of what each has accumulated.

    They do so once for each update, and not for each mini-batch.

    Args, Raises: See GradientAccumulationOptimizerV2.

    Source: Graphcore's optimizer of this name.
    """

    @flags_checked
    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Any = SUM,
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
    """The older form, for gradient descent and momentum; it sums the gradients up.

    Args:
        opt: A tf.compat.v1.train.GradientDescentOptimizer or MomentumOptimizer.
        num_mini_batches: See GradientAccumulationOptimizerV2.
        verify_usage: Whether another optimizer is refused. Default: True.
        name: Of its ops and variables.

    Raises:
        ValueError: See GradientAccumulationOptimizerV2; or another optimizer.

    Source: Graphcore's optimizer of this name.
    """

    @flags_checked
    def __init__(
        self,
        opt: Any,
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
        opt: Any,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        if verify_usage:
            refuse_others(opt, type(self).__name__)
        super().__init__(CrossReplicaOptimizer(opt), num_mini_batches, name=name)


def refuse_others(opt: Any, name: str) -> None:
    """Raises ValueError unless it is gradient descent or momentum."""
    known = (_v1.train.GradientDescentOptimizer, _v1.train.MomentumOptimizer)
    if isinstance(opt, known):
        return
    raise ValueError(
        f"{name} wraps tf.compat.v1.train.GradientDescentOptimizer and MomentumOptimizer, "
        f"got {type(opt).__name__}. {name}V2 wraps any, and `verify_usage=False` leaves "
        "this check out."
    )


def check_accumulates_once(outer: GradientAccumulationOptimizerV2, opt: Any) -> None:
    """Raises ValueError if two of them would each wait for iterations of one loop."""
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


def checked_number(num_mini_batches: Any) -> int:
    """Raises ValueError unless it is a positive integer."""
    number = num_mini_batches
    if isinstance(number, bool) or not hasattr(number, "__index__") or number < 1:
        raise ValueError(
            f"num_mini_batches must be a positive number, got {num_mini_batches!r}."
        )
    return int(number.__index__())
