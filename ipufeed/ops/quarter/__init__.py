"""Numbers of 8 bits: float8 with a scale.

    codes   the 256 codes of each format, and their values
    f8_ops  tensors of codes, their products and convolutions

Uses no other folder.
"""
