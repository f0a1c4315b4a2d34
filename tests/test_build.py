"""What building promises: it builds, or says in one sentence what is missing."""

import os
import shutil
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = pytest.mark.process


def build(tmp_path, **environment):
    """Starts to build the library; returns what the build said when it gave up."""
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


def test_a_missing_compiler_is_named_with_the_way_out(tmp_path):
    """Who has no g++ learns what to install, and how to name another compiler."""
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


# Writes what g++ would write, and notes what it was asked for.
FAKE_COMPILER = """#!{python}
import pathlib, sys
arguments = sys.argv[1:]
if "--version" in arguments:
    print("fake 1.0")
    raise SystemExit
output = pathlib.Path(arguments[arguments.index("-o") + 1])
output.write_text("built")
if "-c" in arguments:
    source = arguments[arguments.index("-c") + 1]
    lines = pathlib.Path(source).read_text().splitlines()
    made_of = [line.split('"')[1] for line in lines if '"ipufeed/' in line]
    with open({log!r}, "a") as log:
        print(pathlib.Path(source).name, *made_of, file=log)
    if "feeder" in f"{{source}} {{made_of}}":
        made_of.append("ipufeed/cc/wait.h")
    output.with_suffix(".d").write_text(" ".join([f"{{output}}:", source, *made_of]))
"""


@pytest.mark.parametrize(
    ("build_command", "feeder", "trace"),
    [
        ("build_ext", "bundle_others.cc", "bundle_others.cc"),
        ("editable_wheel", "feeder.cc", "trace.cc"),
    ],
)
def test_only_what_changed_is_compiled_again(tmp_path, build_command, feeder, trace):
    """A second build of the same tree compiles nothing; a header, those that include it."""
    tree, log = tmp_path / "tree", tmp_path / "compiled"
    tree.mkdir()
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(
        ROOT / "ipufeed", tree / "ipufeed", ignore=lambda *_: ["libipufeed.so"]
    )
    compiler = tmp_path / "g++"
    compiler.write_text(FAKE_COMPILER.format(python=sys.executable, log=str(log)))
    compiler.chmod(0o755)
    environment = {**os.environ, "CXX": str(compiler)}

    def compiled(include):
        fake = tmp_path / include
        header = fake / "include/tensorflow/core/framework/op_kernel.h"
        header.parent.mkdir(parents=True)
        header.touch()
        environment.update(fake_tensorflow(fake, "2.21.0"))
        with open(fake / "tensorflow/__init__.py", "a") as package:
            package.write("    get_lib = staticmethod(lambda: '/nowhere')\n")
            package.write("    get_compile_flags = staticmethod(lambda: [])\n")
        log.write_text("")
        command = [sys.executable, "setup.py", "--quiet", build_command]
        subprocess.run(
            command, cwd=tree, env=environment, check=True, timeout=DEADLOCK_S
        )
        lines = [line.split() for line in log.read_text().splitlines()]
        return {
            name: [os.path.basename(each) for each in rest] for name, *rest in lines
        }

    sources = sorted(each.name for each in (tree / "ipufeed/cc").glob("*.cc"))
    first = compiled("one")
    members = [each for bundle in first.values() for each in bundle]
    if build_command == "build_ext":
        assert set(first) == {"bundle_others.cc", "bundle_xla.cc", "c_api.cc"}
        assert sorted([*members, "c_api.cc"]) == sources  # each once
        assert "executable.cc" in first["bundle_xla.cc"]
    else:
        assert sorted(first) == sources
        assert members == []
    assert compiled("another") == {}  # the folder of the headers is another
    with open(tree / "ipufeed/cc/wait.h", "a") as header:
        header.write("// changed\n")
    # One says what it was built from.
    assert set(compiled("third")) == {"c_api.cc", feeder}
    with open(tree / "ipufeed/cc/trace.cc", "a") as source:
        source.write("// changed\n")
    assert set(compiled("fourth")) == {"c_api.cc", trace}
