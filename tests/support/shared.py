"""What all tests share: the watchdog, the state of the process, and fixtures.

ipufeed comes first: TensorFlow lists its devices at its first op, and the library has to
be there by then. A crash or a hang says where it happened: faulthandler for crashes,
pytest-timeout (see pyproject.toml) for hangs, and the watchdog below for a hang that keeps
the GIL, since pytest-timeout's thread could then print nothing.
"""

import contextlib
import ctypes
import faulthandler
import gc
import os

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

import ipufeed as ipufeed  # before what the tests need of it
from ipufeed import _native
from ipufeed.device.program import executor as params
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.process_state import STATE

import styles  # isort: skip
from fork_server import COLLECT_AFTER  # isort: skip

WATCHDOG_S = 1300.0  # beyond any test's own limit, which would report more

# What TensorFlow calls the gradients that it registers while it traces.
TRACED_GRADIENTS = ("CustomGradient-", "PartitionedCall-")

# Fault of ipufeed/cc/base/faults.h.
NO_FAULT, BAD_ALLOC = 0, 2

_stderr = pytest.StashKey[int]()


def pytest_configure(config):
    config.stash[_stderr] = os.dup(2)  # the true one: pytest captures later


def pytest_collection_finish():
    """Leaves what is there now out of collections of garbage: 0.25 s of CPU each.

    Tracing a program makes many objects that stay: with Python's own thresholds a fifth
    of its time is spent on collections that find nothing, and a sixth of TensorFlow's
    import, so that conftest.py turns them off until here.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@pytest.fixture(autouse=True)
def watchdog(pytestconfig):
    faulthandler.dump_traceback_later(
        WATCHDOG_S, exit=True, file=pytestconfig.stash[_stderr]
    )
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module", autouse=True)
def no_state_is_left():
    """The next file of the same process finds what a new process has.

    No configuration, and no programs: together they would take 256 MiB. TensorFlow
    would keep the generators of datasets with its default graph, zeros of any size, and
    with each gradient that it has registered the model that it is of, graphs included.
    """
    yield
    STATE.reset()
    registered = ops.gradient_registry._registry
    for name in [each for each in registered if each.startswith(TRACED_GRADIENTS)]:
        del registered[name]
    tf.compat.v1.reset_default_graph()
    context.context().zeros_cache().flush()
    gc.collect()
    gc.freeze()  # what modules have imported since then
    ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def clean_system(monkeypatch):
    """A process that has configured nothing and read no flags, before and after."""

    def forget():
        STATE.reset("system", "flags")

    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    forget()
    yield
    forget()


@pytest.fixture
def flags(clean_system, monkeypatch):
    """Sets TF_POPLAR_FLAGS as a program's user does, before they are first read."""

    def use(text):
        monkeypatch.setenv("TF_POPLAR_FLAGS", text)
        STATE.reset("flags")

    return use


@pytest.fixture(params=styles.CASES, ids=", ".join)
def style(request):
    """Each style of writing a program, in each mode of running it. See styles.py."""
    with styles.entered(*request.param) as entered:
        yield entered


@pytest.fixture(params=params._EXECUTORS)
def executor(request):
    """Each executor of programs."""
    with params.executor_scope(request.param):
        yield request.param


@pytest.fixture
def strategy():
    """A strategy, and its scope."""
    strategy = IPUStrategy()
    with strategy.scope():
        yield strategy


@pytest.fixture
def fault():
    """Lets the n-th place of a name fail, see ipufeed/cc/base/faults.h; none afterwards."""

    @contextlib.contextmanager
    def failing(where, nth=1, kind=BAD_ALLOC):
        _native.entry().ipufeed_set_fault(where.encode(), nth, kind)
        try:
            yield
        finally:
            _native.entry().ipufeed_set_fault(b"", 0, NO_FAULT)

    return failing
