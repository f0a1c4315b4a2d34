"""Users' shared libraries for tests: they are compiled with g++."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import DEADLOCK_S

from ipufeed.ops.host import user_library

PREAMBLE = """
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>
using In = const std::vector<const void*>&;
using Counts = const std::vector<uint32_t>&;
using Out = const std::vector<void*>&;
using Text = const std::string&;
"""


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the folder of the libraries' copies is created."""
    folder = tmp_path_factory.mktemp("copies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        user_library._folder.cache_clear()
        user_library._folder()
    yield folder
    user_library._folder.cache_clear()


def compiled(path: Path, text: str, *options: object) -> str:
    """Compiles a library to a path, whose file it overwrites in place."""
    source, built = path.with_suffix(".cc"), path.with_suffix(".built")
    source.write_text(text)
    command = ["g++", "-shared", "-fPIC", source, "-o", built, *options]
    subprocess.run(command, check=True, timeout=DEADLOCK_S)
    with built.open("rb") as file, path.open("wb") as target:
        shutil.copyfileobj(file, target)
    return str(path)
