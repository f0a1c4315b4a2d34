"""Runs the native op on a dataset: steady state, calibration, warnings -> Result.

    measure        checks the arguments; run: the op, on its own thread
    sections       the sections of the result from the op's counters and stamps
    steady_state   fill, drain, the rate and its 95 % interval (of a ratio: comparing)
    series         the run by windows of time; histogram: times between elements
    calibration    the harness's own cost
    cpu_wait       CPU time that other processes took; machine: the machine
    warnings       facts to know before a number is quoted
    recording      spans of each thread, for a trace
    describe       the dataset; loader: loaders of other frameworks

Uses loaders, result, ipufeed.executable and ipufeed.sources.

The public function is `ipufeed.benchmark.measure`. This package is not called `measure`:
importing a package of that name would hide the function.
"""
