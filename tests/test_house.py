"""The sizes of files, functions and folders: what a reader can take in at once."""

import ast
import os
from pathlib import Path

from helpers import ROOT

FOLDERS = ("benchmarks", "docs", "examples", "ipufeed", "tests", "tools")
# Made by running or building: not of the tree.
MADE = {".so", ".pyc"}

MOST_LINES = 400  # of a Python file
MOST_LINES_OF_A_FUNCTION = 80  # with its docstring
MOST_FILES = 20  # of a folder

# What is longer, and why; not one more.
LONG_FILES = {
    "tests/support/option_table.py": "a table: a row for each public parameter",
}
LONG_FUNCTIONS = {
    "ipufeed/applications/exporting.py:export_pipeline": (
        "Graphcore's signature: 16 parameters, each with its line of the docstring"
    ),
    "ipufeed/device/config/options_create.py:create_ipu_config": (
        "Graphcore's signature: 30 parameters, each with its line of the docstring"
    ),
    "ipufeed/keras/calls.py:fit": "the signature of Keras's `fit`: 18 parameters",
    "ipufeed/parallel/pipeline/pipeline.py:pipeline": (
        "Graphcore's signature: 28 parameters, each checked and passed on"
    ),
}


def folders() -> list[Path]:
    """Every folder of the project, without what is made in it."""
    found = []
    for top in FOLDERS:
        for folder, inner, _ in os.walk(ROOT / top):
            inner[:] = [
                each
                for each in inner
                if each != "__pycache__" and not each.endswith(".egg-info")
            ]
            found.append(Path(folder))
    return found


def files(folder: Path) -> list[Path]:
    """The files of a folder, without what is made in it."""
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix not in MADE
    ]


PYTHON = [
    path for folder in folders() for path in files(folder) if path.suffix == ".py"
]


def name_of(path: Path) -> str:
    """The path from the project's root."""
    return path.relative_to(ROOT).as_posix()


def test_no_file_is_longer_than_a_reader_takes_in():
    """A longer file has several jobs, unless the table says why it has not."""
    long = set()
    for path in PYTHON:
        if len(path.read_text().splitlines()) > MOST_LINES:
            long.add(name_of(path))

    assert long == set(LONG_FILES), "split by job; or take what is short from the table"


def test_no_function_is_longer_than_its_signature_requires():
    """Only signatures that are not ours to shorten make a function longer."""
    long = {
        f"{name_of(path)}:{node.name}"
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    }

    assert long == set(LONG_FUNCTIONS), "split it; or take what is short from the table"


def test_no_folder_has_more_files_than_a_listing_shows():
    """C++, Python, pages and pictures alike."""
    full = {
        name_of(folder): len(files(folder))
        for folder in folders()
        if len(files(folder)) > MOST_FILES
    }

    assert not full, "sort them into folders by theme"


def test_files_that_run_first_are_there():
    """A name that is gone would let its successor come last."""
    conftest = ast.parse((ROOT / "tests" / "conftest.py").read_text())
    first = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in conftest.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) in ("WAITING", "LONG")
    }

    assert len(first) == 2
    for names in first.values():
        assert set(names) <= {path.name for path in PYTHON}


def test_files_of_tests_have_names_of_their_own():
    """Without packages in tests/, two of one name cannot be collected in one run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]

    assert sorted(set(names)) == sorted(names)


# Parameters whose types the seams between packages declare.
TYPED = {
    "dataset": ("ipufeed/benchmark", "ipufeed/device", "ipufeed/queues"),
    "infeed_queue": ("ipufeed/benchmark", "ipufeed/device", "ipufeed/parallel"),
    "outfeed_queue": ("ipufeed/parallel",),
    "hook": ("ipufeed/estimators",),
    "session": ("ipufeed/estimators",),
}
# Functions that check what a caller has given may get anything.
ANYTHING_GOES = {
    "ipufeed/queues/infeed.py:__init__",
}


def test_datasets_and_queues_have_types_at_the_seams():
    """`Any` there would make mypy's strictness prove nothing."""
    untyped = {
        f"{name_of(path)}:{node.name}"
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("check")
        for each in [*node.args.args, *node.args.kwonlyargs]
        if each.annotation is not None and ast.unparse(each.annotation) == "Any"
        if name_of(path).startswith(TYPED.get(each.arg, ("-",)))
    }

    assert untyped == ANYTHING_GOES, "declare it as tf_types.Dataset, or as the queue"
