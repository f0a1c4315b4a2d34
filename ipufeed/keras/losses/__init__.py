"""Names of Graphcore's `ipu.keras.losses`, and their replacements.

Losses of Keras run on an IPU unchanged. Uses no other folder.
"""

from __future__ import annotations

from typing import Any

_REFUSED = {
    "CTCLoss": "tf.nn.ctc_loss in a loss of your own, or keras.losses.CTC",
}
__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        raise AttributeError(
            f"`{name}` is not supported on a simulated IPU. Use {_REFUSED[name]}."
        )
    raise AttributeError(f"module 'ipufeed.keras.losses' has no attribute {name!r}")
