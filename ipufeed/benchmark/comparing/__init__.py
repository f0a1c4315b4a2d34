"""Compares two results: the ratio of rates, its confidence interval, the verdict.

    compare      the ratio, its 95 and 99 % intervals, the verdict, and that of a gate
    variance     the variance of a rate within its run
    read_result  the values of a result that count; notes: whether two are comparable
    allowed_loss parses `--fail-if-slower`; text: a comparison as text; verdicts: words

Reads results as JSON. Uses result.

The public function is `ipufeed.benchmark.compare`. This package is not called `compare`:
importing a package of that name would hide the function.
"""
