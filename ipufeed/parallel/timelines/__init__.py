"""The timeline of a pipeline: its record, utilisation and picture.

Uses pipeline, ipufeed.device and ipufeed.executable.
"""
