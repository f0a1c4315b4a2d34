"""Pipelines: stages on IPUs of their own, the schedules.

Uses optimizers and collectives.
"""
