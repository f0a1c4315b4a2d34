"""Compiles programs: finds them in memory or in the cache, keeps the history, logs phases.

Uses every room of ipufeed.executable except commands.
"""
