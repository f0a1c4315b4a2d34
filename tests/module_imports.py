"""Which module of the package imports which."""

from pathlib import Path

from helpers import ROOT

PACKAGE = ROOT / "ipufeed"


def python_files() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """The name of a file's module within the package; "__init__" is the package's own."""
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


MODULES = {module_of(path): path for path in python_files()}
