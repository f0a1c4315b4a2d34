"""Compiler and linker flags for sources that include TensorFlow's headers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "ipufeed" / "cc"


def tensorflow_folder() -> Path:
    """Returns the folder of the installed TensorFlow, without importing it."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        raise SystemExit("TensorFlow must be installed: pip install .")
    return Path(found.origin).parent


def compile_flags() -> list[str]:
    """Returns the flags of the build, with the headers as system headers."""
    include = tensorflow_folder() / "include"
    folders = [
        include,
        include / "external/highwayhash",
        include / "external/farmhash_archive/src",
        SOURCES / "stubs",
    ]
    return [
        *(SOURCES / "compile_flags.txt").read_text().split(),
        "-DEIGEN_MAX_ALIGN_BYTES=64",
        "-D_GLIBCXX_USE_CXX11_ABI=1",
        *(f"-isystem{folder}" for folder in folders),
    ]


def link_flags() -> list[str]:
    """Returns the flags that link a program with TensorFlow's libraries."""
    folder = tensorflow_folder()
    return [
        f"-L{folder}",
        "-l:libtensorflow_framework.so.2",
        "-l:libtensorflow_cc.so.2",
        f"-Wl,-rpath,{folder}",
    ]
