"""`--processes` and `--service`: measures a dataset in several processes.

Uses graph, load, loaders, measuring, process and result. It does not import another mode
(cold, device).
"""
