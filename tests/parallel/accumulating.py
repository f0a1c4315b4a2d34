"""Training with accumulated gradients."""

import small_model
import tensorflow as tf

from ipufeed.parallel.optimizers import accumulation

v1 = tf.compat.v1
V2 = accumulation.GradientAccumulationOptimizerV2

INNER = {
    "descent": lambda: v1.train.GradientDescentOptimizer(small_model.RATE),
    "momentum": lambda: v1.train.MomentumOptimizer(small_model.RATE, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(small_model.RATE),
}
