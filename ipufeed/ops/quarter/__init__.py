"""Numbers of 8 bits: float8 with a scale of its own.

    codes   the 256 codes of each format, and the numbers that they stand for
    f8_ops  tensors of codes, their products and convolutions

Uses nothing of ipufeed.
"""
