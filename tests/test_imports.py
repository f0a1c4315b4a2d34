"""The direction of dependencies: each layer may use only what stands below it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import DEADLOCK_S, ROOT

PACKAGE = ROOT / "ipufeed"

# What a part of the package may import of the package. design: queues know nothing of
# the device; nothing imports the benchmark; the native code imports nothing of Python's.
ALLOWED = {
    "errors": set(),
    "_version": set(),
    "_native": {"errors"},
    "pages": {"pages"},
    "no_effect": set(),
    "queues": {"queues", "errors", "no_effect", "_native"},
    "sources": {"sources", "errors", "_native"},
    "device": {"device", "queues", "errors", "no_effect", "_native"},
    "executable": {
        "executable",
        "pages",
        "device",
        "queues",
        "errors",
        "no_effect",
        "_hush",
        "terminal",
        "_native",
        "_version",
    },
    "python_ops": set(),
    "parallel": {
        "parallel",
        "executable",
        "device",
        "queues",
        "errors",
        "no_effect",
        "python_ops",
        "_native",
    },
    "benchmark": {
        "benchmark",
        "sources",
        "parallel",
        "executable",
        "pages",
        "device",
        "queues",
        "errors",
        "python_ops",
        "_hush",
        "terminal",
        "_native",
        "_version",
        "__version__",
    },
    "_hush": set(),
    "terminal": set(),
    "lost_names": set(),
    # Names as text, resolved when they are used.
    "compat": {"lost_names"},
    "run": {"_hush", "_native", "compat", "terminal"},
    # The package itself only forwards names, and loads the library.
    "__init__": {"_native", "_version"},
}


def python_files() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, wherever in the file it does."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            pieces = name.split(".")
            if pieces[0] == "ipufeed" and len(pieces) > 1:
                parts.add(pieces[1])
    return parts


@pytest.mark.parametrize(
    "path", python_files(), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_a_file_imports_only_what_is_below_it(path):
    """An arrow in code points down the list in the package's docstring, never up."""
    part = part_of(path)

    assert part in ALLOWED, f"{part} is new: say in ALLOWED what it may import"
    assert imported_parts(path) <= ALLOWED[part]


def test_the_ring_and_its_waiting_know_nothing_of_tensorflow():
    """The lock-free core compiles alone, under sanitizers and beside the model."""
    for name in (
        "spsc_ring.h",
        "wait.h",
        "clock.h",
        "feed.h",
        "cpus.h",
        "test_hooks.h",
    ):
        text = (PACKAGE / "cc" / name).read_text()
        includes = re.findall(r'#include [<"]([^>"]+)[>"]', text)

        assert not [
            path for path in includes if re.match("tensorflow|xla|absl|tsl", path)
        ]


def test_no_native_file_includes_python():
    """The native library is no Python module and needs no interpreter."""
    for path in (PACKAGE / "cc").glob("*.*"):
        assert "Python.h" not in path.read_text()


@pytest.mark.process
def test_the_help_needs_no_tensorflow():
    """`python -m ipufeed.benchmark --help` imports nothing that is slow."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ipufeed.benchmark", "--help"],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "usage: python -m ipufeed.benchmark" in done.stdout
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "ipufeed.benchmark.arguments" in imported
    assert not {"tensorflow", "numpy", "pyarrow", "tqdm"} & imported


@pytest.mark.process
def test_configuring_needs_no_tensorflow():
    """The device's package, and all that configures it, is light to import."""
    modules = ["", ".config", ".flags", ".environment", ".options", ".system"]
    code = (
        "import importlib, sys, types\n"
        # ipufeed itself loads the native library, and TensorFlow with it.
        "package = types.ModuleType('ipufeed')\n"
        f"package.__path__ = [{str(PACKAGE)!r}]\n"
        "sys.modules['ipufeed'] = package\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module('ipufeed.device' + name)\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_the_public_names_are_there():
    """Everything in __all__ can be had, and the version is the package's."""
    import ipufeed
    import ipufeed.benchmark
    import ipufeed.sources

    for module in (ipufeed, ipufeed.benchmark, ipufeed.sources):
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ipufeed.nonsense
