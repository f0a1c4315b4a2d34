"""What is changed in TensorFlow at run time: the table, and changes of no other layer.

Uses no other package of ipufeed.
"""
