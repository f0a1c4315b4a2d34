"""Random ops and seeds on a simulated IPU, and the changes of TensorFlow for them.

Uses program, system and ipufeed.queues.
"""
