"""Standard streams, signals and child processes of the command; no TensorFlow.

Uses no other folder.
"""
