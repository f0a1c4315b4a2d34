"""Pipelines: stages on IPUs of their own, the schedules.

Uses optimizers, ipufeed.device, ipufeed.executable and ipufeed.queues.
"""
