"""Losses that are more than a few lines: CTC, and classes sampled for losses.

nn_ops has their public names.

Uses device.program and device.random.
"""
