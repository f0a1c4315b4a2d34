"""What building promises: it builds, or says in one sentence what is missing."""

import os
import re
import runpy
import shutil
import subprocess
import sys

import pytest
import setuptools
from helpers import DEADLOCK_S, ROOT
from setuptools.errors import CompileError

pytestmark = [pytest.mark.process, pytest.mark.long]


def build(tmp_path, **environment):
    """Starts to build the library; returns the build's output when it fails."""
    command = [sys.executable, "setup.py", "--quiet", "build_ext"]
    command += [
        "--build-lib",
        str(tmp_path / "lib"),
        "--build-temp",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    assert not list((tmp_path / "lib").rglob("*.so"))
    return done.stdout + done.stderr


def fake_tensorflow(folder, version):
    """A TensorFlow of some version whose headers are not there."""
    package = folder / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text(
        f"__version__ = {version!r}\n"
        "class sysconfig:\n"
        f"    get_include = staticmethod(lambda: {str(folder / 'include')!r})\n"
    )
    return {"PYTHONPATH": str(folder)}


def test_a_missing_compiler_is_named_with_the_remedy(tmp_path):
    """A user without g++ learns what to install, and how to name another compiler."""
    text = build(tmp_path, CXX="no-such-compiler-17")

    assert "the C++ compiler `no-such-compiler-17` was not found" in text
    assert "apt-get install g++" in text
    assert "CXX" in text


def test_another_tensorflow_is_refused_before_anything_is_compiled(tmp_path):
    """Both versions are named, and the command that brings the right one."""
    text = build(tmp_path, **fake_tensorflow(tmp_path, "2.20.1"))

    assert "the build needs TensorFlow 2.21, but 2.20.1 is installed" in text
    assert 'pip install "tensorflow==2.21.*"' in text


def test_a_tensorflow_without_headers_is_refused(tmp_path):
    """The missing header is named; no page of compiler errors comes first."""
    text = build(tmp_path, **fake_tensorflow(tmp_path, "2.21.0"))

    assert "TensorFlow 2.21.0 is installed without its C++ headers" in text
    assert "op_kernel.h is missing" in text


@pytest.mark.parametrize("name", ["memory", "Thread", "thread,address"])
def test_an_unknown_sanitizer_is_refused(tmp_path, name):
    """A build that silently has no sanitizer would prove nothing."""
    text = build(tmp_path, IPUFEED_SANITIZE=name)

    assert "IPUFEED_SANITIZE must be one of thread, address or empty" in text
    assert repr(name) in text


def test_a_missing_tool_is_named_with_the_remedy(monkeypatch):
    """A build without isolation says what to install."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    build_script = runpy.run_path(str(ROOT / "setup.py"))

    with pytest.raises(CompileError, match="the build needs `no-such-tool`"):
        build_script["find_tool"]("no-such-tool")


@pytest.mark.parametrize("moved", ["CMAKE_HOME_DIRECTORY", "CMAKE_CACHEFILE_DIR", None])
def test_the_build_of_a_checkout_that_was_moved_is_made_again(
    tmp_path, monkeypatch, moved
):
    """CMake would refuse it; one of the same place stays."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.chdir(ROOT)
    build_script = runpy.run_path(str(ROOT / "setup.py"))
    places = {
        "CMAKE_HOME_DIRECTORY": ROOT / "ipufeed/cc",
        "CMAKE_CACHEFILE_DIR": tmp_path,
    }
    if moved:
        places[moved] = "/elsewhere"
    cache = tmp_path / "CMakeCache.txt"
    cache.write_text("".join(f"{k}:INTERNAL={v}\n" for k, v in places.items()))

    build_script["empty_if_moved"](tmp_path)

    assert cache.exists() == (moved is None)


# Writes what g++ would write for our sources, and notes its arguments; CMake's
# own questions go to g++.
FAKE_COMPILER = """#!{python}
import os, pathlib, re, sys
arguments = sys.argv[1:]
output = pathlib.Path(arguments[arguments.index("-o") + 1] if "-o" in arguments else "-")
source = pathlib.Path(arguments[-1])
ours = "ipufeed/cc" in str(source) or source.name.startswith(("unity_", "cmake_pch"))
if not ours and output.name != "libipufeed.so":
    os.execv({gxx!r}, [{gxx!r}, *arguments])
output.write_text("built")
if "-MF" in arguments:
    with open({log!r}, "a") as log:
        print(source.name, file=log)
    cc = pathlib.Path({tree!r}) / "ipufeed/cc"
    found, new = set(), [source]
    while new:
        path = new.pop()
        found.add(path)
        if path.exists():
            for name in re.findall('#include "(.+)"', path.read_text()):
                new += {{cc / name}} - found if (cc / name).is_file() else []
    if source.name == "build_info.cc":
        found.add(arguments[arguments.index("-include") + 1])
    made_of = " ".join(map(str, found))
    depfile = pathlib.Path(arguments[arguments.index("-MF") + 1])
    depfile.write_text(f"{{arguments[arguments.index('-MT') + 1]}}: {{made_of}}")
"""


# These are compiled as one unit.
XLA = ("xla/lowering", "xla/compile")
# Each is one unit, too.
FOLDERS = (
    *(
        "data",
        "measure",
        "run",
        "feeds",
        "device",
        "replicas",
        "pipeline",
        "random",
        "host",
    ),
    *("xla/calls", "xla/clusters", "capi"),
)


def is_made_of(path, header, root):
    """Whether a source includes a header (None: any), itself or through others."""
    new, seen = [path], set()
    while new:
        each = new.pop()
        if header in (None, each):
            return True
        seen.add(each)
        names = re.findall(r'^#include "(.+)"', each.read_text(), re.MULTILINE)
        new += [
            root / n for n in names if (root / n).is_file() and root / n not in seen
        ]
    return False


@pytest.mark.parametrize("build_command", ["build_ext", "editable_wheel"])
def test_only_what_changed_is_compiled_again(tmp_path, build_command):
    """A second build of the same tree compiles nothing; a header, those that include it."""
    tree, log = tmp_path / "tree", tmp_path / "compiled"
    tree.mkdir()
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(
        ROOT / "ipufeed", tree / "ipufeed", ignore=lambda *_: ["libipufeed.so"]
    )
    compiler = tmp_path / "g++"
    compiler.write_text(
        FAKE_COMPILER.format(
            python=sys.executable, log=str(log), tree=str(tree), gxx=shutil.which("g++")
        )
    )
    compiler.chmod(0o755)
    environment = {**os.environ, "CXX": str(compiler), "CCACHE_DISABLE": "1"}

    def compiled(include):
        fake = tmp_path / include
        header = fake / "include/tensorflow/core/framework/op_kernel.h"
        header.parent.mkdir(parents=True)
        header.touch()
        environment.update(fake_tensorflow(fake, "2.21.0"))
        with open(fake / "tensorflow/__init__.py", "a") as package:
            package.write("    get_compile_flags = staticmethod(lambda: [])\n")
        log.write_text("")
        command = [sys.executable, "setup.py", "--quiet", build_command]
        subprocess.run(
            command, cwd=tree, env=environment, check=True, timeout=DEADLOCK_S
        )
        return sorted(log.read_text().split())

    cc = tree / "ipufeed/cc"
    units = [("0", [path for each in XLA for path in sorted((cc / each).glob("*.cc"))])]
    for folder in FOLDERS:
        members = sorted((cc / folder).glob("*.cc"))
        members = [path for path in members if path.name != "build_info.cc"]
        units.append((folder.rpartition("/")[2], members))
    together = [path for _, members in units for path in members]
    units += [("", [path]) for path in cc.rglob("*.cc") if path not in together]

    def compiled_for(header):
        """The names of the units that include a header."""
        return sorted(
            f"unity_{name}_cxx.cxx" if name else members[0].name
            for name, members in units
            if any(is_made_of(member, header, cc) for member in members)
        )

    everything = compiled_for(None)
    assert compiled("one") == sorted([*everything, "cmake_pch.hxx.cxx"])
    assert compiled("another") == []  # the folder of TensorFlow's headers is another
    wait = cc / "core/wait.h"
    with open(wait, "a") as header:
        header.write("// changed\n")
    made_of_it = compiled_for(wait)
    assert 5 < len(made_of_it) < len(everything)
    # One says what it was built from.
    assert compiled("third") == sorted(["build_info.cc", *made_of_it])
    for name in ("base/trace.cc", "run/stall.cc"):
        with open(cc / name, "a") as source:
            source.write("// changed\n")
    assert compiled("fourth") == ["build_info.cc", "trace.cc", "unity_run_cxx.cxx"]
