"""`--processes` and `--service`: measures a dataset in several processes.

Uses graph, load, measuring, process and result. It does not import another mode (cold,
device).
"""
