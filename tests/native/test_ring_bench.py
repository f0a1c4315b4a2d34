"""The native benchmark of the ring: it compiles, and what it moved was whole.

Here too and not only among the benchmarks, since its headers are the library's own.
"""

import tempfile

import pytest

from benchmarks import native

pytestmark = pytest.mark.long


def test_every_case_of_the_ring_benchmark_runs(tmp_path, monkeypatch):
    """Each case checks what it moved: a wrong checksum ends the program."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # no binary of before
    found = native.ring_bench.__wrapped__(1)
    assert found["rounds"] == 1
    assert {"ring_handle", "mutex_handle", "feed_pointer"} <= found["cases"].keys()
