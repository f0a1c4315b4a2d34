"""Optimizers: mean over replicas, gradient accumulation, shards, offloaded state.

Uses collectives.
"""
