"""Standard streams, signals and child processes of the command; no TensorFlow.

Uses ipufeed.errors and ipufeed.render only.
"""
