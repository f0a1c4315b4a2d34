"""The work of the pytest plugin's fixture, without pytest: measures and compares.

Uses comparing, measuring, report and result.
"""
