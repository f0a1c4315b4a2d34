"""`--cold`: measures a dataset whose files are not in the page cache.

Uses measuring, graph and result. It does not import another mode (device, scaleout).
"""
