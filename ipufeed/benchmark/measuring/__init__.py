"""Runs the native op on a dataset: steady state, calibration, warnings -> Result.

Uses graph, result, process and ipufeed.render.

The public function is `ipufeed.benchmark.measure`. This package is not called `measure`:
importing a package of that name would hide the function.
"""
