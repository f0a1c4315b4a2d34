"""PopDistStrategy and related strategies: several processes, like one with more replicas.

    TF_CONFIG lists the processes; each runs its replicas on its own IPUs.
    variables    are initialised with the values of process 0
    gradients    are reduced on the IPU, over the replicas of all processes
    host values  are reduced between the processes (host_collectives)

Source: Graphcore's classes of these names, which use MPI on the host and links between
IPUs; here both are TensorFlow's collectives (parallel/collectives/processes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import distribute_lib, values

from ipufeed.checks import flags_checked
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import (
    IPUExtended,
    IPUStrategyV1,
    hooks,
)
from ipufeed.device.program.strategy_contexts import ipus_per_replica, is_alone
from ipufeed.device.system import system
from ipufeed.device.system.state import SYSTEM
from ipufeed.no_effect import no_effect
from ipufeed.programs import host_collectives, popdist
from ipufeed.tf_types import DType, Tensor, TensorLike, Variable


class IPUDistributedVariable(values.DistributedVariable):  # type: ignore[misc]
    """For isinstance: the strategies' variables are ordinary ones here."""


class IPUSyncOnReadVariable(values.SyncOnReadVariable):  # type: ignore[misc]
    """A variable with `synchronization=ON_READ` of several processes.

    On the host its value is the sum or mean of all processes' values, by its `aggregation`:
    all of them read it, in the same order. In `strategy.run`, and where a model of Keras
    trains, evaluates or is saved, it is the process's own.
    """

    @flags_checked
    def assign(
        self,
        value: TensorLike,
        use_locking: bool | None = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Sets the value; on the host, each process has its part of a sum.

        Args: those of tf.Variable. All processes assign the same.
        """
        with distribute_lib.enter_or_assert_strategy(self.distribute_strategy):
            if self._is_reduced() and self._aggregation == tf.VariableAggregation.SUM:
                # TensorFlow divides by all replicas, and each process has one value.
                value = tf.convert_to_tensor(value, self.dtype)
                value = tf.cast(value / popdist.getNumInstances(), self.dtype)
            return self._primary.assign(value, use_locking, name, read_value)

    def _is_reduced(self) -> bool:
        return tf.distribute.in_cross_replica_context() and not is_alone()

    def _get_cross_replica(self) -> Any:
        return self._primary if is_alone() else super()._get_cross_replica()

    # What an ordinary variable has, and TensorFlow's distributed ones do not.

    def __array__(self, dtype: Any = None) -> Any:
        return np.asarray(self.numpy(), dtype)

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())


class IPUMirroredVariable(values.MirroredVariable):  # type: ignore[misc]
    """For isinstance, like IPUDistributedVariable."""


class IPUOnWritePolicy(values.OnWritePolicy):  # type: ignore[misc]
    """For isinstance, like IPUDistributedVariable."""


class IPUOnReadPolicy(values.OnReadPolicy):  # type: ignore[misc]
    """For isinstance, like IPUDistributedVariable."""


class PopDistExtendedV1(IPUExtended):
    """Creates the variables and reduces the values of a PopDistStrategy.

    Args:
        container_strategy: The strategy.
        cluster_resolver: No effect, with a warning: TF_CONFIG names the processes.
        ipu_device: The IPU's name.
        add_ipu_cross_replica_reductions: See PopDistStrategy.
        on_host: Whether datasets are iterated on the host.
    """

    @flags_checked
    def __init__(
        self,
        container_strategy: IPUStrategyV1,
        cluster_resolver: Any = None,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        on_host: bool = False,
    ) -> None:
        if cluster_resolver is not None:
            no_effect(
                "PopDistExtendedV1(cluster_resolver=)", "TF_CONFIG names the processes"
            )
        super().__init__(container_strategy, ipu_device, on_host)
        self._reduces = add_ipu_cross_replica_reductions

    @property
    def _num_replicas_in_sync(self) -> int:
        ipus = system.require_usable(self._ordinal).num_ipus
        each = ipus_per_replica() or popdist.getNumIpusPerReplica()
        return popdist.getNumInstances() * max(1, ipus // each)

    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Variable:
        """Creates a variable with the initial value of process 0."""
        value = kwargs.get("initial_value")
        if popdist.getNumInstances() > 1 and value is not None:
            kwargs["initial_value"] = _from_first_process(value, kwargs.get("dtype"))
        variable = super()._create_variable(next_creator, **kwargs)
        kinds, aggregation = tf.VariableAggregation, kwargs.get("aggregation")
        if (
            popdist.getNumInstances() > 1
            and kwargs.get("synchronization") is tf.VariableSynchronization.ON_READ
            and aggregation in (kinds.SUM, kinds.MEAN)
        ):
            strategy = self._container_strategy()
            return IPUSyncOnReadVariable(strategy, [variable], aggregation)
        return variable

    def _reduce_to(
        self, reduce_op: Any, value: TensorLike, destinations: Any, options: Any
    ) -> Tensor:
        """Reduces a value: on the IPU over all replicas, on the host over processes."""
        kinds = tf.distribute.ReduceOp
        if reduce_op not in (kinds.SUM, kinds.MEAN):
            raise ValueError(f"Unsupported reduce op: {reduce_op}")
        if isinstance(value, IPUSyncOnReadVariable):
            return host_collectives.allreduce(value._primary, reduce_op)
        if tf.executing_eagerly():
            return host_collectives.allreduce(value, reduce_op)
        if not self._reduces or self._num_replicas_in_sync == 1:
            return value
        return hooks.reduce(tf.convert_to_tensor(value), reduce_op == kinds.MEAN)


def _from_first_process(value: Any, dtype: DType | None) -> Callable[[], Tensor]:
    """Returns a function that gets process 0's initial value, or its function's result."""

    def first() -> Tensor:
        own = tf.convert_to_tensor(value() if callable(value) else value, dtype)
        if not tf.executing_eagerly():
            own = tf.identity(own)
        return host_collectives.broadcast(own)

    return first


class PopDistStrategy(IPUStrategyV1):
    """Runs tf.functions in several processes, as replicas of one program.

        strategy = PopDistStrategy()
        config = IPUConfig()
        strategy.update_ipu_config(config)
        config.configure_ipu_system()
        with strategy.scope():
            variable = tf.Variable(0.0)      # with the value of process 0
            strategy.run(train, args=[iterator])

    Args:
        ipu_device: The IPU's name.
        add_ipu_cross_replica_reductions: Whether gradients that an optimizer applies in
            the scope are reduced over all replicas.
        enable_dataset_iterators: See IPUStrategyV1.
        enable_keras_extensions: See IPUStrategyV1.

    Raises:
        ValueError: `ipu_device` is not a usable IPU.

    Threads: any; all processes make the same calls in the same order.

    Source: Graphcore's class of this name.
    """

    @flags_checked
    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        self._reduces = add_ipu_cross_replica_reductions
        super().__init__(
            ipu_device,
            enable_dataset_iterators=enable_dataset_iterators,
            enable_keras_extensions=enable_keras_extensions,
        )

    def _make_extended(self, device: str, on_host: bool) -> IPUExtended:
        return PopDistExtendedV1(self, None, device, self._reduces, on_host)

    def update_ipu_config(self, config: IPUConfig) -> IPUConfig:
        """Sets a config's options for this process, and returns it.

        Args:
            config: `process_count` and `process_index` of its
                `experimental.multi_replica_distribution` are set, if TF_CONFIG lists
                several processes.

        Raises:
            TypeError: It is not an IPUConfig.
        """
        if not isinstance(config, IPUConfig):
            raise TypeError(
                f"`config` must be an IPUConfig, got {type(config).__name__}."
            )
        if popdist.getNumInstances() > 1:
            distribution = config.experimental.multi_replica_distribution
            distribution.process_count, distribution.process_index = popdist.cluster()
        return config


# Its names in older releases.
IPUHorovodStrategy = IPUMultiReplicaStrategy = PopDistStrategy


def _check_workers(cluster_resolver: Any) -> None:
    is_class = isinstance(cluster_resolver, type)
    if is_class or not callable(getattr(cluster_resolver, "cluster_spec", None)):
        raise TypeError(
            "`cluster_resolver` must be a tf.distribute.cluster_resolver.ClusterResolver, "
            "such as TFConfigClusterResolver(), got "
            f"{type(cluster_resolver).__name__} {cluster_resolver!r}."
        )
    workers = cluster_resolver.cluster_spec().as_dict().get("worker", [])
    if max(1, len(workers)) != popdist.getNumInstances():
        raise ValueError(
            f"`cluster_resolver` names {len(workers)} workers, and TF_CONFIG "
            f"{popdist.getNumInstances()}: give TFConfigClusterResolver()."
        )


class IPUMultiWorkerExtendedV1(PopDistExtendedV1):
    """Creates the variables and reduces the values of an IPUMultiWorkerStrategyV1.

    Args:
        container_strategy: The strategy.
        cluster_resolver: See IPUMultiWorkerStrategyV1.
        ipu_device: The IPU's name.
        variables_on_host: See IPUMultiWorkerStrategyV1.
    """

    @flags_checked
    def __init__(
        self,
        container_strategy: IPUStrategyV1,
        cluster_resolver: Any,
        ipu_device: str = "/device:IPU:0",
        variables_on_host: bool = False,
    ) -> None:
        if variables_on_host:
            no_effect(
                "IPUMultiWorkerStrategyV1(variables_on_host=)",
                "the IPU's memory is the host's",
            )
        _check_workers(cluster_resolver)
        super().__init__(container_strategy, None, ipu_device)


class IPUMultiWorkerStrategyV1(PopDistStrategy):
    """The older form of PopDistStrategy, for a cluster resolver.

    A configured system is configured again, for the workers of the cluster; so is one that
    is configured later by a config that names no processes.

    Args:
        cluster_resolver: A tf.distribute.cluster_resolver.ClusterResolver, such as
            TFConfigClusterResolver; its workers must be those of TF_CONFIG.
        ipu_device: The IPU's name.
        variables_on_host: No effect, with a warning.

    Raises:
        TypeError: `cluster_resolver` has no `cluster_spec`.
        ValueError: The resolver names other workers than TF_CONFIG.

    Source: Graphcore's class of this name.
    """

    @flags_checked
    def __init__(
        self,
        cluster_resolver: Any,
        ipu_device: str = "/device:IPU:0",
        variables_on_host: bool = False,
    ) -> None:
        _check_workers(cluster_resolver)
        tf.get_logger().warning(
            "IPUMultiWorkerStrategyV1 is deprecated: use PopDistStrategy."
        )
        config = system.configured()
        if popdist.getNumInstances() > 1:
            with SYSTEM.lock:
                SYSTEM.processes = popdist.cluster()
            known = config.experimental.multi_replica_distribution
            if (known.process_count, known.process_index) != popdist.cluster():
                known.process_count, known.process_index = popdist.cluster()
                config.configure_ipu_system()
        self._resolver, self._variables_on_host = cluster_resolver, variables_on_host
        super().__init__(ipu_device)

    def _make_extended(self, device: str, on_host: bool) -> IPUExtended:
        del on_host
        return IPUMultiWorkerExtendedV1(
            self, self._resolver, device, self._variables_on_host
        )

    def update_config_proto(self, config_proto: Any) -> Any:
        """Returns a session's configuration unchanged.

        Args:
            config_proto: A tf.compat.v1.ConfigProto.
        """
        return config_proto


IPUMultiWorkerStrategy = IPUMultiWorkerStrategyV1
