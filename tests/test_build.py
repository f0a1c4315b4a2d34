"""What building promises: it builds, or says in one sentence what is missing."""

import os
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT


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
