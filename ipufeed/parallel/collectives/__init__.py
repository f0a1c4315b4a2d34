"""Collectives between replicas, in one process and in several.

Uses ipufeed.device and ipufeed.queues.
"""
