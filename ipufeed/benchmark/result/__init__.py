"""Settings and Result, and their JSON.

Uses report.
"""
