"""Compares two results: the ratio of rates, its confidence interval, the verdict.

Reads results as JSON. Uses result.

The public function is `ipufeed.benchmark.compare`. This package is not called `compare`:
importing a package of that name would hide the function.
"""
