"""Tests that measure are tried again; what several of them look at is then made anew."""

import concurrent.futures

import pytest

# What a test finds out of times is right unless somebody else has the CPUs meanwhile: one
# that measures has failed when it has failed three times. All in tests/benchmark do.
MEASURES = pytest.mark.flaky(reruns=2, reruns_delay=2, only_rerun=["AssertionError"])


def tried_again(request):
    """Whether this is not the first try of a test (see conftest.py)."""
    return getattr(request.node, "execution_count", 1) > 1


def kept(make):
    """A fixture out of a function: what it gives is kept for the next test."""
    found = []

    @pytest.fixture(name=make.__name__)
    def get(request, turn):
        if not found or tried_again(request):
            found[:] = [make()]
        return found[0]

    return get


def kept_runs(run, names):
    """The fixture `runs`: name -> run(name, folder), each in a folder of its own.

    All of them before the first test, two at a time, since most of them start TensorFlow.
    For a test that is tried again those that it asks for.
    """
    found = {}

    @pytest.fixture(name="runs")
    def get(request, turn, tmp_path_factory):
        def each(name):
            return run(name, tmp_path_factory.mktemp("run"))

        if tried_again(request):
            return Anew(each)
        if not found:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                found.update(zip(names, pool.map(each, names), strict=True))
        return found

    return get


class Anew(dict):
    """Results by name that are made when they are first asked for."""

    def __init__(self, make):
        super().__init__()
        self._make = make

    def __missing__(self, name):
        self[name] = self._make(name)
        return self[name]
