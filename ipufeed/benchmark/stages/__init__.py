"""Where the time of a pipeline goes: probes, costs of stages, the model of their threads.

Uses graph and measuring.
"""
