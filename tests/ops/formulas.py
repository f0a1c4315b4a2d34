"""Formulas in NumPy."""

import numpy as np

RNG = np.random.default_rng(7)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
