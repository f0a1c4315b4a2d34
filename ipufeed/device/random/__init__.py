"""Random ops and seeds on a simulated IPU, and what is changed in TensorFlow for them.

Uses program, system and flags.
"""
