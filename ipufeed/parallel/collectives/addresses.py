"""The addresses of TF_CONFIG at which the processes listen; their exposure."""

from __future__ import annotations

import ipaddress
import os

import tensorflow as tf

from ipufeed.device.log import LOGGER


def addresses(count: int, index: int) -> list[str]:
    """Reads the addresses of the processes from TF_CONFIG.

    Raises:
        tf.errors.FailedPreconditionError: TF_CONFIG is not set, or contradicts this.
    """
    try:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        found = resolver.cluster_spec().as_dict().get("worker", [])
        own = resolver.task_id
    except ValueError as error:
        raise tf.errors.FailedPreconditionError(
            None, None, f"TF_CONFIG cannot be read: {error}"
        ) from error
    if len(found) == count and own == index:
        if len(set(found)) < count:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"TF_CONFIG gives several processes one address: {', '.join(found)}. Each "
                "listens at one of its own.",
            )
        return list(found)
    state = f"has {len(found)} workers and the index {own}"
    raise tf.errors.FailedPreconditionError(
        None,
        None,
        f"experimental.multi_replica_distribution says that this is process {index} of "
        f"{count}; TF_CONFIG must say where they are, and "
        f"{state if os.environ.get('TF_CONFIG') else 'is not set'}. Set it to "
        '{"cluster": {"worker": ["host:port", ...]}, '
        f'"task": {{"type": "worker", "index": {index}}}}}.',
    )


def warn_of_network(found: list[str]) -> None:
    """Warns that other machines can reach the processes, if an address is not local."""
    outside = [each for each in found if not is_loopback(each)]
    if outside:
        LOGGER.warning(
            "TF_CONFIG has addresses outside of this machine: %s. TensorFlow's servers "
            "have no authentication and no encryption: whatever reaches their ports can "
            "run TensorFlow ops in these processes, and read and write their files. Let "
            "only trusted machines reach the ports (a private network, or a firewall).",
            ", ".join(outside),
        )


def is_loopback(address: str) -> bool:
    """Whether a "host:port" is a loopback address; names are not resolved."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
