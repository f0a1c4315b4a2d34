"""popdist.tensorflow: a config for one of several processes."""

from __future__ import annotations

from ipufeed.device.config.config import IPUConfig, as_tuple
from ipufeed.programs import popdist


def set_ipu_config(
    config: IPUConfig,
    ipus_per_replica: int | None = None,
    configure_device: bool = True,
) -> IPUConfig:
    """Sets a config's options for this one of several processes.

    Args:
        config: An IPUConfig, which is changed.
        ipus_per_replica: The IPUs of each copy of a program. Default: 1.
        configure_device: Whether to select this number of IPUs, unless IPUs are selected.
            Default: True.

    Returns:
        The config.

    Raises:
        TypeError: It is not a config, or a number is not an integer.
        ValueError: `ipus_per_replica` is less than 1.
    """
    if not isinstance(config, IPUConfig):
        raise TypeError(f"`config` must be an IPUConfig, got {type(config).__name__}.")
    number = 1 if ipus_per_replica is None else ipus_per_replica
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(
            f"`ipus_per_replica` must be an int, got {type(number).__name__}."
        )
    if number < 1:
        raise ValueError(f"`ipus_per_replica` must be at least 1, got {number}.")
    popdist.set_ipus_per_replica(number)
    selected = as_tuple(config.auto_select_ipus) or as_tuple(config.select_ipus)
    if configure_device and not selected:
        config.auto_select_ipus = number
    if popdist.isPopdistEnvSet():
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count, distribution.process_index = popdist.cluster()
    return config
