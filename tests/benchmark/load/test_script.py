"""The rules of ipufeed/benchmark/load/dataset_file.py: which dataset of a file is measured.

In this process, without measuring anything; what the command makes of it is tested in
test_command.py.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import DEADLOCK_S

from ipufeed.benchmark.load import dataset_file
from ipufeed.errors import DatasetFileError

# ---- FILE[:NAME] ----


def test_a_target_without_a_colon_is_a_file():
    """Nothing is split off where there is nothing to split."""
    assert dataset_file.split_target("data/set.py") == (Path("data/set.py"), None)


def test_a_target_names_what_follows_its_last_colon():
    """A folder may have a colon in its name."""
    assert dataset_file.split_target("a:b/set.py:train") == (
        Path("a:b/set.py"),
        "train",
    )


def test_a_file_that_is_there_wins_over_a_name(tmp_path, monkeypatch):
    """A file called `set.py:train` can be measured."""
    monkeypatch.chdir(tmp_path)
    Path("set.py:train").touch()

    assert dataset_file.split_target("set.py:train") == (Path("set.py:train"), None)


@pytest.mark.parametrize("name", ["", "1st", "a.b", "make()"])
def test_a_target_is_refused_when_what_follows_the_colon_is_not_a_name(name):
    """The message shows the target, its form, and what is wrong with it."""
    with pytest.raises(DatasetFileError) as refused:
        dataset_file.split_target(f"set.py:{name}")

    assert (
        str(refused.value)
        == f"`set.py:{name}` must be FILE.py or FILE.py:NAME, and {name!r} is not a name."
    )


# ---- --set NAME=VALUE ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64", 64),
        ("-1.5", -1.5),
        ("1e-3", 1e-3),
        ("True", True),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("'64'", "64"),
        ("train", "train"),
        ("a=b", "a=b"),
        ("", ""),
        ("/data/x y.tfrecord", "/data/x y.tfrecord"),
        ("__import__('os')", "__import__('os')"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_a_value_is_a_python_literal_or_else_text(text, expected):
    """Nothing is run to read a value, and no text is refused."""
    texts = dataset_file.parse_assignments([f"name={text}"])
    value = dataset_file.value_for("name", texts["name"], None)

    assert expected == value
    assert type(expected) is type(value)


def test_a_value_that_nests_too_deeply_is_text():
    """Python's own limits do not come through as errors."""
    text = "(" * 100_000

    assert text == dataset_file.value_for("name", text, None)


@pytest.mark.parametrize("assignment", ["batch_size", "=3", "batch-size=3", "1=2", ""])
def test_an_assignment_is_refused_unless_it_is_name_and_value(assignment):
    """The message shows the assignment and an example of a right one."""
    with pytest.raises(DatasetFileError) as refused:
        dataset_file.parse_assignments([assignment])

    assert (
        str(refused.value)
        == f"--set must be NAME=VALUE, got {assignment!r}: for example "
        "--set batch_size=64."
    )


def test_an_assignment_is_refused_when_its_name_comes_twice():
    """Neither of two values wins silently."""
    with pytest.raises(DatasetFileError, match=r"^--set a is given twice\.$"):
        dataset_file.parse_assignments(["a=1", "b=2", "a=1"])


# ---- Running the file ----


def test_a_file_is_run_as_python_runs_it(tmp_path):
    """Its folder comes first on sys.path, sys.argv is its own, __file__ is absolute."""
    (tmp_path / "neighbour_of_pipeline.py").write_text("value = 3")
    path = tmp_path / "pipeline.py"
    path.write_text("import sys, neighbour_of_pipeline\nargv = list(sys.argv)\n")

    module = dataset_file.run_file(path)

    assert module.neighbour_of_pipeline.value == 3
    assert str(tmp_path) == sys.path[0]
    assert [str(path)] == module.argv
    assert str(path) == module.__file__


def test_the_main_part_of_a_file_does_not_run(tmp_path):
    """`if __name__ == "__main__":` guards a training loop, not wanted here."""
    path = tmp_path / "pipeline.py"
    path.write_text("ran = __name__ == '__main__'")

    assert not dataset_file.run_file(path).ran


def test_a_file_can_define_dataclasses_and_pickle_them(tmp_path):
    """Both look the module up by its name."""
    path = tmp_path / "pipeline.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses, pickle, typing\n"
        "@dataclasses.dataclass\nclass Point:\n    x: typing.ClassVar[int] = 1\n"
        "    y: int = 2\n"
        "copy = pickle.loads(pickle.dumps(Point(5)))\n"
    )

    assert dataset_file.run_file(path).copy.y == 5


def test_a_file_does_not_inherit_our_future_statements(tmp_path):
    """Its annotations are what it wrote, not text."""
    path = tmp_path / "pipeline.py"
    path.write_text("def f() -> int: ...")

    assert int is dataset_file.run_file(path).f.__annotations__["return"]


def test_a_file_does_not_replace_a_module_of_the_same_name(tmp_path):
    """A dataset file may be called json.py."""
    import json

    path = tmp_path / "json.py"
    path.write_text("value = 1")
    module = dataset_file.run_file(path)

    assert module.value == 1
    assert json is sys.modules["json"]


def test_a_file_does_not_replace_a_module_that_is_imported_later(tmp_path):
    """As html.py would that of the page."""
    path = tmp_path / "this.py"  # prints at its import
    path.write_text("value = 1")
    assert "this" not in sys.modules
    assert dataset_file.run_file(path).value == 1

    import this

    assert this.__file__ != str(path)


def test_a_file_may_have_a_name_that_is_not_an_identifier(tmp_path):
    """`my-data set.py` is a file name like any other."""
    path = tmp_path / "my-data set.py"
    path.write_text("value = 1")

    assert dataset_file.run_file(path).value == 1


@pytest.mark.process
@pytest.mark.parametrize("name", ["feed", "my-feed", "my feed"])
def test_a_worker_that_is_spawned_finds_the_file(tmp_path, name):
    """It imports what is pickled by the name of the module, as DataLoader's workers do."""
    path = tmp_path / f"{name}.py"
    path.write_text("class Record: pass")
    module = dataset_file.run_file(path)
    text = f"import pickle; print(pickle.loads({pickle.dumps(module.Record())!r}))"
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
        },  # as multiprocessing hands it on
    )

    assert "Record object" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["feed.v2", "json"])
def test_a_name_that_cannot_be_imported_has_another_module(tmp_path, name):
    """`feed.v2` would be a module of a package, and json is Python's."""
    path = tmp_path / f"{name}.py"
    path.write_text("value = 1")

    assert dataset_file.run_file(path).__name__.startswith("dataset_file")


def test_a_file_may_declare_its_encoding(tmp_path):
    """The coding line and the byte order mark count, as they do for Python."""
    path = tmp_path / "pipeline.py"
    path.write_bytes("# coding: latin-1\nvalue = 'é'".encode("latin-1"))
    other = tmp_path / "other.py"
    other.write_bytes(b"\xef\xbb\xbfvalue = '\xc3\xa9'")

    assert dataset_file.run_file(path).value == "é"
    assert dataset_file.run_file(other).value == "é"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def f(:", SyntaxError),
        ("raise ValueError('mine')", ValueError),
        ("raise SystemExit(3)", SystemExit),
        ("raise KeyboardInterrupt", KeyboardInterrupt),
    ],
)
def test_what_a_file_raises_is_passed_on(tmp_path, text, error):
    """It is not wrapped in an exception of ipufeed."""
    path = tmp_path / "pipeline.py"
    path.write_text(text)

    with pytest.raises(error):
        dataset_file.run_file(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    """The message has the system's reason."""
    path = tmp_path / "gone.py"

    with pytest.raises(DatasetFileError) as refused:
        dataset_file.run_file(path)

    assert f"cannot read {path}: No such file or directory." == str(refused.value)
