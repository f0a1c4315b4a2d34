"""Measures ipufeed itself: targets, costs by size, peers, and its speed over time.

    targets    what the project promises to reach: `python -m benchmarks.targets`
    scaling    how costs grow with the work; makes docs/performance/scaling.md
    peers      ipufeed and its peers in one run; makes docs/performance.md
    suite      benchmarks over time, one file per question; run by asv
    programs   child programs of the targets
    cc         the native benchmark of the ring and other queues

confidence.py counts false alarms and missed changes of `compare`; soak.py sends 10^8
numbers. The other files are helpers of several of these.

They measure us, for the maintainers. What users run to measure their own pipelines is
`ipufeed.benchmark`; that the code is right is the business of `tests/`.
"""
