"""The commands of `python -m ipufeed.benchmark`: sub-commands, exit codes, progress.

Uses advice, cold, comparing, device, load, measuring, options, process, report, result,
scaleout and ipufeed.sources. Only `__main__` uses it.
"""
