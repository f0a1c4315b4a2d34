"""Settings and Result, and their JSON.

Uses ipufeed.errors and ipufeed.render only.
"""
