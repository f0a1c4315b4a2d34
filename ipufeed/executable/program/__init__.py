"""One compiled program: its identity, its key, its file.

Uses hlo.
"""
