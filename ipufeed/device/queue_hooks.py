"""Connects the device with the queues (ipufeed/queues/hooks.py) and the native core."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from ipufeed import _native
from ipufeed._entry_points import ON_FIRST_USE
from ipufeed.device import log
from ipufeed.device.flags import flags
from ipufeed.device.flags.synthetic import InitializerKind, SyntheticDataCategory
from ipufeed.device.program.strategy import strategy_ordinal
from ipufeed.device.random import patches
from ipufeed.device.system.seeds import has_seeds, on_seed
from ipufeed.device.system.state import DeviceSeed
from ipufeed.device.system.system import (
    attach,
    configured,
    ipu_counts,
    on_change,
    precompiles,
    require_usable,
)
from ipufeed.device.system.topology import NUM_IPUS
from ipufeed.errors import DeviceOrdinalError
from ipufeed.queues import interrupt
from ipufeed.queues.hooks import SyntheticTensor, device_hooks
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import DType, NestFunction, Shape, Tensor

FAILED_PRECONDITION = 9  # absl's status code
IPU_NUMBER = re.compile(r"IPU:(\d+)$", re.IGNORECASE)

_join: Callable[[int, int], None] | None = None  # set_join


def set_join(join: Callable[[int, int], None]) -> None:
    """Sets the function that connects this process to its peers in a distribution.

    Args:
        join: Called with the number of processes and this one's index: now, if the system
            is configured for several, and at each change.
    """
    global _join
    _join = join
    _set_processes()


def default_ordinal() -> int:
    """Returns the IPU of the current IPUStrategy, else 0."""
    return strategy_ordinal()


def check_ordinal(ordinal: int) -> None:
    """Raises DeviceOrdinalError, a ValueError, for an IPU that cannot be used."""
    require_usable(ordinal)


def infeed_threads() -> int:
    """Returns --max_infeed_threads, or 0 for the default."""
    return max(0, flags.get_flags().max_infeed_threads)


def null_data_feed() -> bool:
    """Returns --null_data_feed."""
    return flags.get_flags().null_data_feed


def runs_programs() -> bool:
    """Returns whether programs run, unlike with PRE_COMPILE."""
    return not precompiles()


def synthetic_outfeed() -> bool:
    """Returns whether --use_synthetic_data or a category covers outfeeds."""
    return flags.use_synthetic_data_for(SyntheticDataCategory.Outfeed)


def synthetic_infeed() -> SyntheticTensor | None:
    """Returns the function for an infeed's synthetic tensors; None with real data."""
    if not flags.use_synthetic_data_for(SyntheticDataCategory.Infeed):
        return None
    return _synthetic_tensor


def _synthetic_tensor(dtype: DType, shape: Shape) -> Tensor:
    """Returns a tensor filled by --synthetic_data_initializer; by default zeros.

    Random values have a fixed seed and are computed once per program: in each iteration
    they would add time that is not the program's.
    """
    initializer = flags.get_flags().initializer
    kind = initializer.kind
    if kind is InitializerKind.NONE:
        return tf.zeros(shape, dtype)
    if kind is InitializerKind.CONSTANT:
        return tf.cast(tf.fill(shape, initializer.constant), dtype)
    if kind is InitializerKind.NORMAL:
        if not dtype.is_floating:
            return tf.ones(shape, dtype)
        return tf.random.stateless_normal(shape, [0, 0], dtype=dtype)
    if dtype == tf.bool:
        return tf.random.stateless_uniform(shape, [0, 0]) < 0.5
    if dtype.is_floating:
        # All finite values of the type, not only [0, 1).
        unit = tf.random.stateless_uniform(shape, [0, 0], -1.0, 1.0, dtype)
        return unit * dtype.max
    low, high = max(dtype.min, -(2**31)), min(dtype.max, 2**31 - 1)
    return tf.cast(
        tf.random.stateless_uniform(shape, [0, 0], low, high, tf.int32), dtype
    )


@ON_FIRST_USE  # type: ignore[untyped-decorator]
def _attach_at_first_use(ordinal: int, message: Any, size: int) -> int:
    """Called by the native device before its first program; returns 0 or a status code."""
    log.log_native_messages()  # the native core may log from here on
    try:
        attach(ordinal)
        _native.entry().ipufeed_set_log_cycle_count(
            flags.get_flags().log_cycle_count >= 0
        )
        # Whether the seed is synthetic data.
        _native.entry().ipufeed_set_synthetic_seed(
            flags.use_synthetic_data_for(SyntheticDataCategory.Seed)
        )
    except Exception as error:
        text = str(getattr(error, "message", error)).encode()[: size - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return int(getattr(error, "error_code", FAILED_PRECONDITION))
    return 0


def _set_ipus() -> None:
    counts = ipu_counts()
    for ordinal in range(NUM_IPUS):
        _native.entry().ipufeed_set_ipus(ordinal, counts.get(ordinal, 0))


def _forget_seeds() -> None:
    """Removes the seeds from the core, after a reset of the system."""
    if not has_seeds():
        _native.entry().ipufeed_forget_seeds()


def _set_seed(ordinal: int, seed: DeviceSeed) -> None:
    _native.entry().ipufeed_set_seed(ordinal, seed.seed, seed.identical_replicas)


def _set_processes() -> None:
    """Sets the peer processes that run replicas of this one's programs in the core."""
    distribution = configured().experimental.multi_replica_distribution
    if distribution.process_count > 1:
        if _join is None:
            raise RuntimeError(
                "Several processes need `import ipufeed` at their start."
            )
        _join(distribution.process_count, distribution.process_index)
    else:
        _native.entry().ipufeed_set_processes(1, 0, None)


def _refuse_wrong_ordinals(method: Callable[..., Any]) -> NestFunction:
    """Makes a `device` method of TensorFlow raise for an IPU that does not exist.

    With soft placement, the default of TensorFlow 2, such a name means the CPU.
    """

    @functools.wraps(method)
    def device(self: Any, *arguments: Any, **keywords: Any) -> Any:
        for name in (*arguments, *keywords.values()):
            if isinstance(name, str) and "IPU:" in name.upper():
                _check_exists(name)
                interrupt.watch()  # before the call that compiles the first program
        return method(self, *arguments, **keywords)

    return device


def _check_exists(name: str) -> None:
    number = IPU_NUMBER.search(name)
    if number is not None and int(number[1]) >= NUM_IPUS:
        raise DeviceOrdinalError(
            f"There is no {name}: the ordinal of an IPU must be in [0, {NUM_IPUS})."
        )


def install() -> None:
    """Connects the device, when this module is imported."""
    entry = _native.entry()
    entry.ipufeed_set_on_first_use(_attach_at_first_use)
    on_change(entry.ipufeed_forget_first_uses)
    on_change(_set_ipus)
    on_change(_set_processes)
    on_change(_forget_seeds)
    on_seed(_set_seed)
    patches.install()
    _set_ipus()  # of a system configured before the import
    for owner in (context.Context, ops.Graph):
        replace(owner, "device", _refuse_wrong_ordinals(owner.device))
    device_hooks.default_ordinal = default_ordinal
    device_hooks.check_ordinal = check_ordinal
    device_hooks.infeed_threads = infeed_threads
    device_hooks.null_data_feed = null_data_feed
    device_hooks.synthetic_outfeed = synthetic_outfeed
    device_hooks.synthetic_infeed = synthetic_infeed
    device_hooks.runs_programs = runs_programs


install()
