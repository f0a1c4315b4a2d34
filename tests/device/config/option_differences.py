"""How options differ from the defaults."""

from ipufeed.device.config.options import IpuOptions, create_ipu_config


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
