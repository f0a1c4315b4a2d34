"""Pipelines: stages on IPUs of their own, schedules, the timeline.

Uses optimizers and collectives.
"""
