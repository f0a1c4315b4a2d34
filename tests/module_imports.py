"""Which module of the package imports which."""

import ast
import functools
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


def imported(path: Path) -> set[str]:
    """The modules of the package that a file imports, wherever in the file it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            root, _, inner = name.partition(".")
            if root != "ipufeed":
                continue
            while inner and inner not in MODULES:
                inner = inner.rpartition(".")[0]
            found.add(inner or "__init__")
    return found - {module_of(path)}


@functools.cache
def all_arrows() -> frozenset[tuple[str, str]]:
    """Each import of the package, as (module, module). Made once, by the first test."""
    return frozenset(
        (module, target)
        for module, path in MODULES.items()
        for target in imported(path)
    )


def circles(arrows: set[tuple[str, str]]) -> set[str]:
    """What is left when all without an arrow in, or without one out, has been taken."""
    while True:
        ends = {one for one, _ in arrows} & {other for _, other in arrows}
        inner = {(one, other) for one, other in arrows if {one, other} <= ends}
        if inner == arrows:
            return {one for one, _ in arrows}
        arrows = inner
