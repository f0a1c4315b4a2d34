"""Compiles programs: looks them up in the caches, keeps their history, logs phases.

Uses explanation, program, report, store, tracing, ipufeed.device and ipufeed.queues.
"""
