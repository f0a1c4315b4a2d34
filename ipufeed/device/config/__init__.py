"""IPUConfig: its tree of options, their checks, and the older functions that set them.

Uses flags, ipufeed.errors and ipufeed.no_effect. Imports no TensorFlow.
"""
