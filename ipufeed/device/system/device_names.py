"""Names of TensorFlow devices, in the spellings of users: an IPU's, and its host's."""

from __future__ import annotations

import re

from ipufeed.checks import check_text
from ipufeed.errors import DeviceOrdinalError
from ipufeed.no_effect import no_effect

_IPU = re.compile(r"(?:^|/)(?:device:)?IPU:(\d+)$", re.IGNORECASE)


def ordinal_of(device: str) -> int:
    """Returns the number of an IPU device: 1 for "/device:IPU:1", "/ipu:1" or longer.

    Raises:
        DeviceOrdinalError: It is not the name of an IPU device.
    """
    match = _IPU.search(device) if isinstance(device, str) else None
    if match is None:
        raise DeviceOrdinalError(
            f"`device` must name an IPU, as in '/device:IPU:0', got {device!r}."
        )
    return int(match[1])


def check_host(call: str, argument: str, device: str) -> None:
    """Warns once if an argument names another host than the only one.

    Args:
        call: The function, for the warning.
        argument: Its argument.
        device: The name of the host's device.

    Raises:
        TypeError: The name is not a str.
    """
    check_text(argument, device)
    if device not in ("cpu", "/device:CPU:0"):
        no_effect(
            f"{call}({argument}=)",
            "all IPUs belong to this process, whose only host is /device:CPU:0",
        )
