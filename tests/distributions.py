"""Builds the sdist and the wheel and checks what is in them: python tests/distributions.py

The wheel holds the package and its library, and no sources. The sdist holds all that it
takes to build, test and benchmark, and nothing that was built.
"""

import fnmatch
import subprocess
import sys
import tarfile
import tempfile
import zipfile
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
    "ipufeed/pages/page.css",
    "ipufeed-*.dist-info/METADATA",
    "ipufeed-*.dist-info/licenses/LICENSE",
)
WHEEL_ONLY = (
    "pytest_ipufeed.py",
    "ipufeed/*.py",
    "ipufeed/libipufeed.so",
    "ipufeed/py.typed",
    "ipufeed/benchmark/report/page.css",
    "ipufeed/pages/page.css",
    "*.dist-info/*",
)
SDIST_HAS = (
    "pytest_ipufeed.py",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "ipufeed/cc/spsc_ring.h",
    "ipufeed/cc/feeder.cc",
    "tests/cc/ring_test.cc",
    "tests/models/feed.pml",
    "benchmarks/targets/__main__.py",
    "examples/photos.py",
    ".ci/run",
)
SDIST_LACKS = ("*.so", "*.pyc", "*/__pycache__/*", "build/*", ".git/*")


def main() -> int:
    """Builds both from the tracked files, and prints what is wrong with them."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder]
        subprocess.run(build, cwd=clone, check=True, stdout=subprocess.DEVNULL)
        (sdist,) = Path(folder).glob("*.tar.gz")
        (wheel,) = Path(folder).glob("*.whl")
        with tarfile.open(sdist) as archive:
            members = [m.name.split("/", 1)[-1] for m in archive if m.isfile()]
        with zipfile.ZipFile(wheel) as archive:
            contents = archive.namelist()
    wrong = [f"the sdist lacks {name}" for name in missing(members, SDIST_HAS)]
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


def missing(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    """The patterns that no name matches."""
    return [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def matching(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    """The names that match any pattern."""
    return [name for pattern in patterns for name in fnmatch.filter(names, pattern)]


if __name__ == "__main__":
    sys.exit(main())
