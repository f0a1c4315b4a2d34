"""Fixtures of the tests that run a dataset's file in this process."""

import sys

import pytest
from written_files import HEAD

from ipufeed.benchmark.load import dataset_file


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    """What run_file changes of the interpreter is taken back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def find(tmp_path):
    """Runs a file with this text, and returns what is found in it."""

    def find(text, name=None, *, file="pipeline.py", **values):
        path = tmp_path / file
        path.write_text(HEAD + text)
        return dataset_file.find_dataset(
            dataset_file.run_file(path), name, values, file
        )

    return find
