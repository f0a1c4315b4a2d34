"""Configured systems, and what attaching logs."""

from ipufeed.device.config.config import IPUConfig


def configured(**values) -> IPUConfig:
    """A config with these values, `__` for the dots; the system is as it says."""
    config = IPUConfig.from_dict(
        {name.replace("__", "."): value for name, value in values.items()}
    )
    config.configure_ipu_system()
    return config


def attach_lines(caplog) -> list[str]:
    """What has been logged of attached devices."""
    return [text for text in caplog.messages if "attached to " in text]
