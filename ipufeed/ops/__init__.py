"""Graphcore's operations, in modules of the same names: nn_ops, rand_ops, ...

Each builds stock TensorFlow operations in the caller's graph, so that it works compiled, on
the executor, in version 1 graphs and eagerly, on an IPU and on the CPU.

Uses ipufeed.device, ipufeed.parallel and ipufeed.queues.
"""
