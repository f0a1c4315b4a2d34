"""Names of tests and of their results' files, the same in every checkout and call.

pytest's own ids begin at its rootdir, which depends on the command line: the value of an
option that pytest does not know yet counts as one of the paths to test.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

NAME_LENGTH = 100  # of a result's file, before its hash
# A folder with one of these is the top of a project.
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
    """Returns `tests/test_feed.py::test_it[small]`, from the project's folder on.

    Args:
        path: The test's file.
        nodeid: pytest's id of the test, of which the part after the file is used.
        called_in: The folder to begin at if none above `path` is a project's.
    """
    top = next((each for each in path.parents if _is_project(each)), called_in)
    inside = Path(os.path.relpath(path, top)).as_posix()
    return "::".join([inside, *nodeid.split("::")[1:]])


def _is_project(folder: Path) -> bool:
    return any((folder / name).exists() for name in PROJECT_FILES)


def file_name(name: str, number: int) -> str:
    """Returns the file of a test's n-th measurement, the same in every run of the tests.

    Characters that file names must not have are replaced; the hash of the test's name
    distinguishes names that become equal by that.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[-NAME_LENGTH:]
    digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{plain}-{digest}{'' if number == 1 else f'-{number}'}.json"


def nothing_matched(earlier: Path, names: list[str]) -> str | None:
    """Returns the message that no test that measured has a result in `earlier`.

    Args:
        earlier: The folder with an earlier run's results.
        names: The tests that measured and have no earlier result; not empty.

    Returns:
        None if the folder is empty: then all tests are new.
    """
    held = sorted(path.name for path in earlier.glob("*.json"))
    if not held:
        return None
    return (
        "nothing was compared: --ipufeed-compare must be a folder with results of the "
        f"tests that measure, and {earlier} holds {_listed(held)}, not "
        f"{_listed([file_name(name, 1) for name in names])}. Names begin at the "
        "project's folder (docs/ci.md): write the earlier results again with "
        "--ipufeed-json, with the same tests."
    )


def _listed(names: list[str]) -> str:
    left = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {left} more" if left > 0 else "")
