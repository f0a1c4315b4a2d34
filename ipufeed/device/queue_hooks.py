"""The device's answers to the queues' questions (ipufeed/queues/hooks.py)."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

from ipufeed import _native
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
from ipufeed.queues.hooks import surroundings
from ipufeed.tf_patches.changes import replace

FAILED_PRECONDITION = 9  # of absl's status codes

_join: Callable[[int, int], None] | None = None  # set_join


def set_join(join: Callable[[int, int], None]) -> None:
    """Sets what connects this process to the others that run copies of its programs.

    Args:
        join: Called with the number of processes and this one's index, now if the system
            is configured for several, and at each change.
    """
    global _join
    _join = join
    tell_processes()


def default_ordinal() -> int:
    """The IPU of the current IPUStrategy, else 0."""
    return strategy_ordinal()


def check_ordinal(ordinal: int) -> None:
    """Raises DeviceOrdinalError, a ValueError, for an IPU that cannot be used."""
    require_usable(ordinal)


def infeed_threads() -> int:
    """--max_infeed_threads, or 0 for the default."""
    return max(0, flags.get_flags().max_infeed_threads)


def null_data_feed() -> bool:
    """--null_data_feed."""
    return flags.get_flags().null_data_feed


def runs_programs() -> bool:
    """Whether programs run, and not only are compiled (PRE_COMPILE)."""
    return not precompiles()


def synthetic_outfeed() -> bool:
    """Whether --use_synthetic_data or a category covers outfeeds."""
    return flags.use_synthetic_data_for(SyntheticDataCategory.Outfeed)


def synthetic_infeed() -> Callable[[Any, Any], Any] | None:
    """What makes an infeed's tensors on the device, if its data is synthetic."""
    if not flags.use_synthetic_data_for(SyntheticDataCategory.Infeed):
        return None
    return synthetic_tensor


def synthetic_tensor(dtype: Any, shape: Any) -> Any:
    """A tensor filled by --synthetic_data_initializer; without it, zeros.

    Random ones are made from a seed that is fixed, once for the program: making them in
    each iteration would cost time that is not the program's.
    """
    import tensorflow as tf

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


@_native.ON_FIRST_USE  # type: ignore[untyped-decorator]
def attach_at_first_use(ordinal: int, message: Any, size: int) -> int:
    """Asked by the native device before it runs anything; 0 or a status code."""
    log.listen()  # from here on the core may log lines
    try:
        attach(ordinal)
        _native.entry().ipufeed_set_log_cycle_count(
            flags.get_flags().log_cycle_count >= 0
        )
        tell_synthetic_seed()
    except Exception as error:
        text = str(getattr(error, "message", error)).encode()[: size - 1] + b"\0"
        ctypes.memmove(message, text, len(text))
        return int(getattr(error, "error_code", FAILED_PRECONDITION))
    return 0


def tell_ipus() -> None:
    """Sets in the core how many IPUs each device has."""
    counts = ipu_counts()
    for ordinal in range(NUM_IPUS):
        _native.entry().ipufeed_set_ipus(ordinal, counts.get(ordinal, 0))


def tell_synthetic_seed() -> None:
    """Sets in the core whether the seed is synthetic data."""
    synthetic = flags.use_synthetic_data_for(SyntheticDataCategory.Seed)
    _native.entry().ipufeed_set_synthetic_seed(synthetic)


def forget_seeds() -> None:
    """Removes the seed from the core, after a reset of the system."""
    if not has_seeds():
        _native.entry().ipufeed_forget_seeds()


def tell_seed(ordinal: int, seed: DeviceSeed) -> None:
    """Sets in the core the arguments of `reset_ipu_seed`."""
    _native.entry().ipufeed_set_seed(ordinal, seed.seed, seed.identical_replicas)


def tell_processes() -> None:
    """Sets in the core which other processes run copies of its programs."""
    distribution = configured().experimental.multi_replica_distribution
    if distribution.process_count > 1:
        if _join is None:
            raise RuntimeError(
                "Several processes need `import ipufeed` at their start."
            )
        _join(distribution.process_count, distribution.process_index)
    else:
        _native.entry().ipufeed_set_processes(1, 0, None)


def refuse_wrong_ordinals(method: Callable[..., Any]) -> Callable[..., Any]:
    """A `device` method of TensorFlow's that raises for an IPU that does not exist.

    With soft placement, the default of TensorFlow 2, such a name means the CPU.
    """

    @functools.wraps(method)
    def device(self: Any, *arguments: Any, **keywords: Any) -> Any:
        for name in (*arguments, *keywords.values()):
            if isinstance(name, str) and "IPU:" in name.upper():
                check_exists(name)
        return method(self, *arguments, **keywords)

    return device


def check_exists(name: str) -> None:
    """Raises DeviceOrdinalError, a ValueError, for `/device:IPU:16` and above."""
    number = IPU_NUMBER.search(name)
    if number is not None and int(number[1]) >= NUM_IPUS:
        raise DeviceOrdinalError(
            f"There is no {name}: the ordinal of an IPU must be in [0, {NUM_IPUS})."
        )


IPU_NUMBER = re.compile(r"IPU:(\d+)$", re.IGNORECASE)


def install() -> None:
    """Puts the answers in, when this module is imported."""
    entry = _native.entry()
    entry.ipufeed_set_on_first_use(attach_at_first_use)
    on_change(entry.ipufeed_forget_first_uses)
    on_change(tell_ipus)
    on_change(tell_processes)
    on_change(forget_seeds)
    on_seed(tell_seed)
    patches.install()
    tell_ipus()  # of what has been configured before
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    for owner in (context.Context, ops.Graph):
        replace(owner, "device", refuse_wrong_ordinals(owner.device))
    surroundings.default_ordinal = default_ordinal
    surroundings.check_ordinal = check_ordinal
    surroundings.infeed_threads = infeed_threads
    surroundings.null_data_feed = null_data_feed
    surroundings.synthetic_outfeed = synthetic_outfeed
    surroundings.synthetic_infeed = synthetic_infeed
    surroundings.runs_programs = runs_programs


install()
