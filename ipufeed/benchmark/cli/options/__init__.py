"""The options of each command: argparse and checks, without TensorFlow.

Uses the settings of the packages that the options configure, and ipufeed.render.
"""
