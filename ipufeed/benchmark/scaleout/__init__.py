"""`--processes` and `--service`: measures a dataset in several processes.

Uses measuring and process. It does not import another mode (cold, device).
"""
