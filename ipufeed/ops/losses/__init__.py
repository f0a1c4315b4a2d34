"""The CTC losses and decoders; nn_ops has their public names.

Uses ipufeed.device.
"""
