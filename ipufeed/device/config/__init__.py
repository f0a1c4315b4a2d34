"""IPUConfig: its tree of options, their checks, and the older functions that set them.

Uses flags. IPUConfig.configure_ipu_system, of Graphcore's API, imports `system` when it
is called. Imports no TensorFlow.
"""
