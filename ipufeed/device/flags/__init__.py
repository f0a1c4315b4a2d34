"""TF_POPLAR_FLAGS and other variables of the environment, parsed and checked.

Uses no other folder. Imports no TensorFlow.
"""
