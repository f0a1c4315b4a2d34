"""The pytest plugin's fixtures: measures a dataset in a test and compares it to a base.

Uses measuring, comparing and load.
"""
