"""Which file holds a test's earlier result: the same in every checkout, however called.

pytest's own ids begin at its rootdir, which depends on the command line: a folder that is
given to an option which pytest does not know yet counts as one of the paths to test.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

NAME_LENGTH = 100  # of a result's file, before its hash
# A folder that has one of these is a project's.
PROJECT_FILES = (
    "pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
    "setup.py",
    ".git",
)
MOST_SHOWN = 3


def test_name(path: Path, nodeid: str, called_in: Path) -> str:
    """`tests/test_feed.py::test_it[small]`, from the project's folder on.

    Args:
        path: The test's file.
        nodeid: pytest's id of the test, of which the part behind the file is taken.
        called_in: Where the name begins if no folder above `path` is a project's.
    """
    top = next((each for each in path.parents if is_project(each)), called_in)
    inside = Path(os.path.relpath(path, top)).as_posix()
    return "::".join([inside, *nodeid.split("::")[1:]])


def is_project(folder: Path) -> bool:
    """Whether tests' names may begin here."""
    return any((folder / name).exists() for name in PROJECT_FILES)


def file_name(name: str, number: int) -> str:
    """A file's name for a test's n-th measurement: the same in every run of the tests.

    Tests' names hold what file names must not; the hash keeps apart what looks alike
    without that.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-NAME_LENGTH:]
    digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{plain}-{digest}{'' if number == 1 else f'-{number}'}.json"


def nothing_matched(earlier: Path, names: list[str]) -> str | None:
    """The message when no test that measured has a result in `earlier`.

    Args:
        earlier: The folder with an earlier run's results.
        names: Of the tests that measured and have none; not empty.

    Returns:
        None where the folder is empty: then all tests are new.
    """
    held = sorted(path.name for path in earlier.glob("*.json"))
    if not held:
        return None
    return (
        "nothing was compared: --ipufeed-compare must be a folder with results of the "
        f"tests that measure, and {earlier} holds {listed(held)}, where "
        f"{listed([file_name(name, 1) for name in names])} was looked for. Names begin "
        "at the project's folder (docs/ci.md): write the earlier results again with "
        "--ipufeed-json, with the same tests."
    )


def listed(names: list[str]) -> str:
    """A few of them."""
    left = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {left} more" if left > 0 else "")
