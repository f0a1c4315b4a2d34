"""What the command does with a file that it has run."""

import sys
from types import SimpleNamespace

from ipufeed.benchmark.load.load import load_dataset


def test_functions_of_the_file_are_pickled_by_value_for_ray(tmp_path, monkeypatch):
    """As those of `python file.py` are: its workers would run the file, and ray.init()."""
    by_value = []
    cloudpickle = SimpleNamespace(register_pickle_by_value=by_value.append)
    monkeypatch.setitem(sys.modules, "ray.cloudpickle", cloudpickle)
    (tmp_path / "feed.py").write_text("import json\ndef loader(): yield 1")
    load_dataset(str(tmp_path / "feed.py"), [], quiet=True)

    assert [module.__name__ for module in by_value] == ["feed"]
