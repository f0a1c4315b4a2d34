"""Synthetic data: programs whose feeds transfer nothing, or constants.

TF_POPLAR_FLAGS --> placement --> a queue without its dataset, or without its results

Each promise holds in both styles and both modes; see tests/device/styles.py.
"""
