"""`--cold`: measures a dataset whose files are not in the page cache.

Uses measuring and graph. It does not import another mode (device, scaleout).
"""
