"""What the tests of the device share."""

import pytest
import styles

from ipufeed.device import flags as flags_module
from ipufeed.device import system


@pytest.fixture
def clean_system(monkeypatch):
    """A process that has configured nothing and read no flags, before and after."""

    def forget():
        system.reset_ipu_configuration()
        monkeypatch.setattr(flags_module, "_current", None)

    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    forget()
    yield
    forget()


@pytest.fixture(params=styles.CASES, ids=", ".join)
def style(request):
    """Each style of writing a program, in each mode of running it. See styles.py."""
    with styles.entered(*request.param) as entered:
        yield entered
