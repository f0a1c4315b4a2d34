"""The commands of `python -m ipufeed.benchmark`: sub-commands, exit codes, progress.

Uses every other package of the benchmark; only `__main__` uses it.
"""
