"""Changes of TensorFlow at run time: their table, and those that belong to no other layer.

Uses no other folder.
"""
