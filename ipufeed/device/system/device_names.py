"""Parses names of TensorFlow devices, in the spellings of users."""

from __future__ import annotations

import re

from ipufeed.errors import DeviceOrdinalError

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
