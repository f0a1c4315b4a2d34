"""Loads the dataset to measure: a user's file with `--set` values, or the built-in one.

Uses loaders, process and ipufeed.sources.
"""
