"""Where a pipeline's time goes: probes, costs of stages, the queueing model.

Uses graph, measuring and result.
"""
