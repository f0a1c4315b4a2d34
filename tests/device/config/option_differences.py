"""How options differ from the defaults."""

from ipufeed.device.config.options_create import create_ipu_config
from ipufeed.device.config.options_object import IpuOptions


def differences(opts: IpuOptions) -> dict:
    """What the options change of what create_ipu_config gives."""
    before = {
        meta.name: value for meta, value in create_ipu_config().config.attributes()
    }
    return {
        meta.name: value
        for meta, value in opts.config.attributes()
        if value != before[meta.name]
    }
