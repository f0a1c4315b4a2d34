"""Runs the native op on a dataset: steady state, calibration, warnings -> Result.

Uses loaders, result and ipufeed.executable.

The public function is `ipufeed.benchmark.measure`. This package is not called `measure`:
importing a package of that name would hide the function.
"""
