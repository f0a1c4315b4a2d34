"""XLA's HLO: parses and prints modules, reads compiled code.

Uses no other folder.
"""
