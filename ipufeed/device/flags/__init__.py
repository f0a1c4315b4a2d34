"""TF_POPLAR_FLAGS and other variables of the environment, parsed and checked.

Uses ipufeed.errors only. Imports no TensorFlow.
"""
