"""Checks of models and data, before a program is compiled or while it is fed.

arguments checks those of Keras's calls, batches what generators yield, host_operations
refuses what XLA cannot compile. Uses ipufeed.device.
"""
