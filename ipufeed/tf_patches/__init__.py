"""What is changed in TensorFlow at run time.

Uses no other package of ipufeed.
"""
