"""The configured system: virtual devices, the topology, names of devices.

Uses config, flags and log.
"""
