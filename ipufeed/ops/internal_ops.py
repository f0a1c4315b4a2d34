"""Operations that Graphcore's own code uses."""

from __future__ import annotations

import logging
from typing import Any

LOGGER = logging.getLogger("ipufeed")


def remap(x: Any, name: str | None = None) -> Any:
    """Gives x; on an IPU with another layout. Logs that it is an internal operation."""
    return _identity("remap", x, name)


def remap_deduce(x: Any, name: str | None = None) -> Any:
    """Gives x; on an IPU with the layout that follows from its users.

    Logs that it is an internal operation.
    """
    return _identity("remap_deduce", x, name)


def _identity(which: str, x: Any, name: str | None) -> Any:
    import tensorflow as tf

    LOGGER.warning("%s is a Graphcore internal op", which)
    return tf.identity(x, name=name or which)
