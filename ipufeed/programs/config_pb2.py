"""config_pb2: the message IpuOptions, which get_ipu_config returns.

Source: the name is that of Graphcore's module
tensorflow.compiler.plugin.poplar.driver.config_pb2.
"""

from __future__ import annotations

from typing import Any

from ipufeed.device.system import options_message


def __getattr__(name: str) -> Any:
    if name != "IpuOptions":
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}. It has: IpuOptions."
        )
    return options_message.ipu_options()
