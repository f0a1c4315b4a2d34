"""`--through device` and `--step-time`: measures a dataset through the simulated IPU.

Uses loaders, measuring, result, ipufeed.device and ipufeed.queues. It does not import
another mode (cold, scaleout).
"""
