"""The executable cache on disk: files, their safety, counters.

Uses program and ipufeed.device.
"""
