"""The commands of `python -m ipufeed.benchmark`: sub-commands, exit codes, progress.

Uses advice, cold, comparing, device, load, loaders, measuring, options, process,
report, result and scaleout. Only `__main__` uses it.
"""
