"""Compiles programs: looks them up in the caches, keeps their history, logs phases.

Uses every package of ipufeed.executable except commands.
"""
