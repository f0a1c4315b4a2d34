"""Optimizers: mean over replicas, gradient accumulation, shards, offloaded state.

Uses collectives, ipufeed.device and ipufeed.queues.
"""
