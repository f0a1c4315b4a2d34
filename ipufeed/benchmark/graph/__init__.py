"""A dataset's graph: reads it, names its stages, edits it.

Uses TensorFlow and, of ipufeed, `_native`, `python_ops`, `tf_types` and `render` only.
"""
