"""One compiled program: its names, its key, its file format, events of the core.

Uses hlo and ipufeed.device.
"""
