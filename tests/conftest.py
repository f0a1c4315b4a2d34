"""What all tests share.

ipufeed comes first: TensorFlow lists its devices at its first op, and the library has to
be there by then. A crash or a hang says where it happened: faulthandler for crashes,
pytest-timeout (see pyproject.toml) for hangs, and the watchdog below for a hang that keeps
the GIL, since pytest-timeout's thread could then say nothing.
"""

import faulthandler
import os
import signal

import pytest

import ipufeed as ipufeed

WATCHDOG_S = 600.0  # beyond any test's own limit, which would say more

_stderr = pytest.StashKey[int]()


def pytest_configure(config):
    # A shell ignores Ctrl-C for what it starts in the background, and children inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_stderr] = os.dup(2)  # the true one: pytest captures later


@pytest.fixture(autouse=True)
def watchdog(pytestconfig):
    faulthandler.dump_traceback_later(
        WATCHDOG_S, exit=True, file=pytestconfig.stash[_stderr]
    )
    yield
    faulthandler.cancel_dump_traceback_later()
