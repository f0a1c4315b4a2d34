"""A part of the tests, for a run of CI that has no time for all: `--part K/N`.

Each test is in one of the N. A file stays whole, since its tests share processes that take
long to start; what is marked `soak` has a place for each test, since most of its time is
that of a few files whose tests share nothing.
"""

import argparse
from itertools import groupby


def parse(text):
    """Returns (K, N) of "K/N", where 0 <= K < N."""
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and int(part) < int(parts)):
        raise argparse.ArgumentTypeError(
            f"--part must be K/N with 0 <= K < N, such as 0/6, got {text!r}"
        )
    return int(part), int(parts)


def home(item):
    """What stays in one part: a file, or a test."""
    return item.nodeid if item.get_closest_marker("soak") else str(item.path)


def within(items, part, parts):
    """Returns the tests of a part; each `parts`-th file or test is in the same."""
    homes = [list(tests) for _, tests in groupby(items, key=home)]
    return [item for tests in homes[part::parts] for item in tests]
