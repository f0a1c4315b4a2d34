"""XLA's HLO: parses modules, prints them, reads the compiled code.

Uses ipufeed._native and ipufeed.errors; no other room.
"""
