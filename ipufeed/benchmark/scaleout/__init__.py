"""`--processes` and `--service`: measures a dataset in several processes.

Uses measuring, process, graph, load and result. It does not import another mode (cold,
device).
"""
