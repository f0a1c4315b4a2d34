"""Checks what the distributions hold: python tools/distributions.py

The wheel holds the package and its library, and no sources: looked at is what pip has
installed of it, in the environment that this runs in. The sdist is built here. It holds
every file of the project, so that what can be built from a clone can be built from it, and
nothing that was built.
"""

import fnmatch
import importlib.metadata
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WHEEL_HAS = (
    "pytest_ipufeed.py",
    "ipufeed-*.dist-info/entry_points.txt",
    "ipufeed/__init__.py",
    "ipufeed/libipufeed.so",
    "ipufeed/py.typed",
    "ipufeed/benchmark/__main__.py",
    "ipufeed/benchmark/report/page.css",
    "ipufeed/render/page.css",
    "ipufeed-*.dist-info/METADATA",
    "ipufeed-*.dist-info/licenses/LICENSE",
)
WHEEL_ONLY = (
    "pytest_ipufeed.py",
    "ipufeed/*.py",
    "ipufeed/libipufeed.so",
    "ipufeed/py.typed",
    "ipufeed/benchmark/report/page.css",
    "ipufeed/render/page.css",
    "*.dist-info/*",
)
# What only git needs.
SDIST_NEED_NOT = (".gitignore",)
SDIST_LACKS = ("*.so", "*.pyc", "*/__pycache__/*", "build/*", ".git/*")


def main() -> int:
    """Prints what is wrong with them."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        build = [sys.executable, "-m", "build", "--sdist", "--no-isolation"]
        build += ["--outdir", folder]
        subprocess.run(build, cwd=clone, check=True, stdout=subprocess.DEVNULL)
        tracked = subprocess.run(
            ["git", "ls-files"], cwd=clone, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        (sdist,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            members = [m.name.split("/", 1)[-1] for m in archive if m.isfile()]
    contents = installed()
    needed = set(tracked) - set(SDIST_NEED_NOT)
    wrong = [f"the sdist lacks {name}" for name in sorted(needed - set(members))]
    wrong += [f"the sdist holds {name}" for name in matching(members, SDIST_LACKS)]
    wrong += [f"the wheel lacks {name}" for name in missing(contents, WHEEL_HAS)]
    expected = set(matching(contents, WHEEL_ONLY))
    wrong += [f"the wheel holds {name}" for name in contents if name not in expected]
    for line in wrong:
        print(line)
    print(
        f"sdist: {len(members)} files, wheel: {len(contents)} files, {len(wrong)} wrong"
    )
    return int(bool(wrong))


def installed() -> list[str]:
    """Lists the files that pip installed from the wheel; none of an editable install."""
    files = importlib.metadata.files("ipufeed") or []
    return [str(file) for file in files if file.suffix != ".pyc"]


def missing(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    """Returns the patterns that no name matches."""
    return [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def matching(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    """Returns the names that match any pattern."""
    return [name for pattern in patterns for name in fnmatch.filter(names, pattern)]


if __name__ == "__main__":
    sys.exit(main())
