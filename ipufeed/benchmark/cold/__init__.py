"""`--cold`: measures a dataset whose files are not in the page cache.

Uses graph, measuring, result and ipufeed.sources. It does not import another mode
(device, scaleout).
"""
