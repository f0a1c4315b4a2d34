"""XLA's HLO: parses and prints modules, reads compiled code.

Uses ipufeed._native and ipufeed.errors, and no other package of executable.
"""
