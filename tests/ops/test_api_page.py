"""docs/api.md is what tools/api_page.py writes, and what it says is true."""

import importlib.util
import operator

import pytest
from helpers import ROOT

import ipufeed
from ipufeed import graphcore_names
from ipufeed.errors import RefusedError


def load():
    """The tool."""
    path = ROOT / "tools" / "api_page.py"
    spec = importlib.util.spec_from_file_location("api_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load()


def test_the_page_is_what_the_tool_writes():
    """A change of a name needs a run of `python tools/api_page.py`."""
    assert TOOL.PAGE.read_text(encoding="utf-8") == TOOL.page()


def test_each_name_is_in_its_state():
    """Refused ones raise; missing ones are not there."""
    for module, states in TOOL.rows().items():
        for name in states["refused"]:
            with pytest.raises(RefusedError, match=name):
                operator.attrgetter(f"{module}.{name}")(ipufeed)()
        for name in states["works"]:
            assert operator.attrgetter(f"{module}.{name}")(ipufeed) is not None
        for name in states["missing"]:
            with pytest.raises(AttributeError):
                operator.attrgetter(f"{module}.{name}")(ipufeed)


def test_no_missing_name_has_come_to_exist():
    """The tool's list shrinks with each name that is made."""
    table = {
        module: [
            each
            for each in names.split()
            if each in graphcore_names.MODULES.get(module, ())
        ]
        for module, names in TOOL.MISSING.items()
    }
    assert not any(table.values()), table
