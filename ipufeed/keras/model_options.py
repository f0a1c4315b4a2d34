"""The `set_...` methods of an IPUStrategy's models; see docs/keras.md.

Each is a function of the model's state. None leaves an option unchanged.
"""

from __future__ import annotations

import inspect

from ipufeed.checks import as_int, check_flags
from ipufeed.keras.pipelining import set_pipelining_options
from ipufeed.keras.refusals import check_count, refuse_keys, refuse_old_names
from ipufeed.keras.replica_metrics import ReplicatedMetricReductionMethod
from ipufeed.keras.state import ModelState
from ipufeed.no_effect import no_effect
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod,
    check_dtype,
)
from ipufeed.queues.arguments import (
    check_buffer_depth,
    check_feed_name,
    check_prefetch_depth,
)
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import KerasModel


def set_asynchronous_callbacks(state: ModelState, asynchronous: bool = False) -> None:
    """Sets when the callbacks of batches are called.

    Args:
        asynchronous: False: once for each execution, when it has ended. True: for each
            step, on a separate thread, as soon as its result is available; with several
            replicas for each replica, in order. Such a callback must not use the model's
            variables, which the running program uses.
    """
    check_flags(asynchronous=asynchronous)
    state.asynchronous = bool(asynchronous)


def set_replication_options(
    state: ModelState, replicated_metric_reduction_method: object = "NONE"
) -> None:
    """Sets the reduction of metrics and predictions of several replicas.

    Args:
        replicated_metric_reduction_method: A ReplicatedMetricReductionMethod, or its
            name in any case.

    Raises:
        ValueError: It is neither.
    """
    state.metric_reduction = ReplicatedMetricReductionMethod.parse(
        replicated_metric_reduction_method
    )


def set_infeed_queue_options(state: ModelState, **kwargs: object) -> None:
    """Sets arguments of each IPUInfeedQueue that the model's calls make.

    Args:
        **kwargs: See IPUInfeedQueue.

    Raises:
        ValueError: An argument is set by Keras itself, or out of range.
        TypeError: It has no such argument, or of another type.
    """
    refuse_keys(
        *(kwargs, "kwargs", ("dataset", "infeed_spec", "element_spec")),
        "This argument is automatically set by Keras.",
    )
    refuse_keys(
        *(kwargs, "kwargs", ("_internal_id",)),
        "This argument is not compatible with Keras.",
    )
    _check_names("set_infeed_queue_options", kwargs, IPUInfeedQueue)
    check_prefetch_depth(kwargs.get("prefetch_depth"))
    if kwargs.get("device_ordinal") is not None:
        as_int("device_ordinal", kwargs["device_ordinal"], " or None")
    state.infeed = kwargs


def set_outfeed_queue_options(state: ModelState, **kwargs: object) -> None:
    """Sets arguments of each IPUOutfeedQueue that the model's calls make.

    Args:
        **kwargs: See IPUOutfeedQueue.

    Raises:
        ValueError: An argument is set by Keras itself, or out of range.
        TypeError: It has no such argument, or of another type.
    """
    refuse_keys(
        *(kwargs, "kwargs", ("_internal_id", "outfeed_mode", "device_ordinal")),
        "This argument is not compatible with Keras.",
    )
    _check_names("set_outfeed_queue_options", kwargs, IPUOutfeedQueue)
    if "buffer_depth" in kwargs:
        check_buffer_depth(kwargs["buffer_depth"])
    state.outfeed = kwargs


# Arguments of the queues in older releases, which have no effect, with a warning.
OLD = frozenset(
    {"feed_name", "replication_factor", "data_to_prefetch", "io_batch_size"}
)
# Those that Keras gives.
OF_KERAS = frozenset({"self", "kwargs", "dataset", "outfeed_mode"})


def _check_names(method: str, kwargs: dict[str, object], queue: type) -> None:
    """Raises TypeError for an argument that a queue does not have."""
    known = set(inspect.signature(queue).parameters) - OF_KERAS
    if queue is IPUOutfeedQueue:
        known -= {"device_ordinal"}
    if unknown := sorted(set(kwargs) - known - OLD):
        raise TypeError(
            f"{method}() got an unexpected keyword argument '{unknown[0]}'. It takes "
            f"{', '.join(sorted(known))}, as {queue.__name__} does."
        )
    check_feed_name(kwargs.get("feed_name"))
    if "optimise_latency" in kwargs:
        check_flags(optimise_latency=kwargs["optimise_latency"])


def set_gradient_accumulation_options(
    state: ModelState,
    gradient_accumulation_steps_per_replica: int | None = None,
    gradient_accumulation_reduction_method: object = "sum",
    use_v2_gradient_accumulation_optimizer: bool = False,
    **gradient_accumulation_optimizer_kwargs: object,
) -> None:
    """Sets gradient accumulation: one weight update for several mini-batches.

    Args:
        gradient_accumulation_steps_per_replica: Mini-batches of an update, on each
            replica; must divide `steps_per_execution`.
        gradient_accumulation_reduction_method: SUM, MEAN or RUNNING_MEAN of their
            gradients.
        use_v2_gradient_accumulation_optimizer: No effect, with a warning.
        **gradient_accumulation_optimizer_kwargs: `offload_weight_update_variables` and
            `replicated_optimizer_state_sharding` have no effect, with a warning;
            `dtype`: of the sums, a dtype or a function of the weight.

    Raises:
        ValueError: The number is not a positive int, or an argument is set by Keras.
    """
    kwargs, name = (
        gradient_accumulation_optimizer_kwargs,
        "gradient_accumulation_optimizer_kwargs",
    )
    refuse_keys(
        *(kwargs, name, ("opt",)),
        "This argument is automatically set by Keras: `compile` takes the optimizer.",
    )
    refuse_keys(
        *(kwargs, name, ("num_mini_batches",)),
        "Set the `gradient_accumulation_steps_per_replica` argument to "
        "`set_gradient_accumulation_options` instead.",
    )
    refuse_old_names("set_gradient_accumulation_options", kwargs)
    known = {
        "offload_weight_update_variables",
        "replicated_optimizer_state_sharding",
        "dtype",
    }
    if unknown := sorted(set(kwargs) - known):
        raise TypeError(
            "set_gradient_accumulation_options() got an unexpected keyword argument "
            f"'{unknown[0]}'. It takes gradient_accumulation_steps_per_replica, "
            "gradient_accumulation_reduction_method, "
            f"use_v2_gradient_accumulation_optimizer, {', '.join(sorted(known))}."
        )
    check_count(gradient_accumulation_steps_per_replica)
    flags = {name: kwargs.get(name, False) for name in sorted(known - {"dtype"})}
    check_flags(
        use_v2_gradient_accumulation_optimizer=use_v2_gradient_accumulation_optimizer,
        **{name: flag for name, flag in flags.items() if flag is not None},
    )
    reduction = GradientAccumulationReductionMethod.parse(
        gradient_accumulation_reduction_method
    )
    if use_v2_gradient_accumulation_optimizer:
        no_effect(
            "use_v2_gradient_accumulation_optimizer=",
            "the sums of an execution need no optimizer of their own",
        )
    for option in sorted(known - {"dtype"}):
        if kwargs.get(option):
            no_effect(f"{option}=", "its memory is the host's")
    if gradient_accumulation_steps_per_replica is not None:
        state.accumulation = gradient_accumulation_steps_per_replica
    state.reduction = reduction
    state.accumulation_dtype = check_dtype(kwargs.get("dtype"), "dtype")


def take_from_optimizer(model: KerasModel, state: ModelState) -> None:
    """Sets the options of a GradientAccumulationOptimizer."""
    optimizer = getattr(model, "optimizer", None)
    count = getattr(optimizer, "num_mini_batches", None)
    if count is not None and optimizer is not None:
        state.accumulation = count
        state.reduction = optimizer.reduction_method
        state.accumulation_dtype = optimizer.sum_dtype


METHODS = (
    set_pipelining_options,
    set_asynchronous_callbacks,
    set_replication_options,
    set_infeed_queue_options,
    set_outfeed_queue_options,
    set_gradient_accumulation_options,
)
