"""The configured system: virtual devices, the topology, names of devices.

Uses config and flags. `queue_hooks` tells the queues what they ask of the device.
"""
