"""Benchmarks over time, one file per question; run by asv.

They measure us, for the maintainers. What users run to measure their own pipelines is
`ipufeed.benchmark`; that the code is right is the business of `tests/`.
"""
