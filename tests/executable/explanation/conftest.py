"""Two devices of one IPU each, and programs lowered for them."""

import pytest
from lowering import lowering

import ipufeed


@pytest.fixture(autouse=True)
def two_devices(clean_system):
    config = ipufeed.IPUConfig()
    config.auto_select_ipus = [1, 1]
    config.configure_ipu_system()


@pytest.fixture
def lower(two_devices):
    with lowering() as lower:
        yield lower
