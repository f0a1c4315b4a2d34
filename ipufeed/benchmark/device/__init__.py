"""`--through device` and `--step-time`: measures a dataset through the simulated IPU.

Uses measuring, graph and the packages ipufeed.queues and ipufeed.device. It does not
import another mode (cold, scaleout).
"""
