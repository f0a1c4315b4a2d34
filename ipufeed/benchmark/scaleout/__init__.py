"""`--processes` and `--service`: measures a dataset in several processes.

Uses graph, load, measuring, process, result and ipufeed.sources. It does not import
another mode (cold, device).
"""
