"""A dataset's graph: reads it, names its stages, edits it.

Uses no other folder.
"""
