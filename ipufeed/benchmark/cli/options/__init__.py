"""The options of each command: argparse and checks, without TensorFlow.

Uses advice, comparing, device, result and scaleout.
"""
