"""How the native library is compiled; what the package is stands in setup.cfg.

    ipufeed/cc/CMakeLists.txt --CMake, Ninja--> ipufeed/libipufeed.so

One plain shared library with TensorFlow ops and a few C entry points. It is not a Python
module: ipufeed/_native.py loads it, once it has read what the library was built against
and from (capi/build_info.cc keeps that as a text in it).

Environment:
    CXX: the compiler, default g++.
    IPUFEED_SANITIZE: `thread` or `address` builds with that sanitizer. Python must then
        be started with the sanitizer's run-time library preloaded.
    MAX_JOBS: compilers at a time, default one per CPU; each needs 1 to 2 GB.
    CCACHE_DISABLE: 1 for a build without ccache, which is used where it is installed.

A second build compiles what has changed since the first.
"""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

SOURCES = Path("ipufeed/cc")
NEEDS_TENSORFLOW = "2.21"
SANITIZERS = {"thread": "libtsan.so", "address": "libasan.so"}


def fail(message):
    """Stops the build with a message that pip shows last."""
    raise CompileError(f"ipufeed: {message}")


def find_compiler():
    """CXX as a launcher, which is ccache if it is there, the compiler, and its flags."""
    words = shlex.split(os.environ.get("CXX") or "g++")
    launcher = ["ccache"] if shutil.which("ccache") else []
    if Path(words[0]).name == "ccache" and words[1:]:
        launcher, words = words[:1], words[1:]
    for command in (*launcher, words[0]):
        if shutil.which(command) is None:
            fail(
                f"the C++ compiler `{command}` was not found. Install one (Debian and "
                "Ubuntu: apt-get install g++) or name yours in the environment "
                "variable CXX."
            )
    return launcher, words[0], words[1:]


def find_tool(name):
    # An environment's programs are also found when it is not active.
    path = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
    if path is None:
        fail(
            f"the build needs `{name}`, which was not found. `pip install .` brings it; "
            f"with --no-build-isolation run `pip install {name}` first."
        )
    return path


def find_tensorflow():
    """The installed TensorFlow's version, its folder, and the flags of its ABI."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow as tf
    except ImportError as error:
        fail(
            f"the build needs TensorFlow {NEEDS_TENSORFLOW} and cannot import it "
            f"({error}). `pip install .` brings it; with --no-build-isolation run "
            f'`pip install "tensorflow=={NEEDS_TENSORFLOW}.*"` first.'
        )
    if not tf.__version__.startswith(NEEDS_TENSORFLOW + "."):
        fail(
            f"the build needs TensorFlow {NEEDS_TENSORFLOW}, but {tf.__version__} is "
            "installed, whose C++ interface is another. Run "
            f'`pip install "tensorflow=={NEEDS_TENSORFLOW}.*"`.'
        )
    include = Path(tf.sysconfig.get_include())
    header = include / "tensorflow/core/framework/op_kernel.h"
    if not header.exists():
        fail(
            f"TensorFlow {tf.__version__} is installed without its C++ headers ({header} "
            "is missing). Install the wheel from PyPI: "
            f'`pip install --force-reinstall "tensorflow=={tf.__version__}"`.'
        )
    flags = [flag for flag in tf.sysconfig.get_compile_flags() if flag[:2] == "-D"]
    return tf.__version__, include.parent, flags


def find_sanitizer():
    name = os.environ.get("IPUFEED_SANITIZE", "")
    if name and name not in SANITIZERS:
        fail(
            f"IPUFEED_SANITIZE must be one of {', '.join(SANITIZERS)} or empty, "
            f"got {name!r}."
        )
    return name


def fingerprint(folder):
    """A hash of the native sources; ipufeed/_native.py computes it in the same way."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".cc", ".h"):
            name = path.relative_to(folder).as_posix()
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def write_build_info(path, version, sanitizer):
    info = {
        "tensorflow": version,
        "sources": fingerprint(SOURCES),
        "sanitizer": sanitizer,
        "sanitizer_library": SANITIZERS.get(sanitizer, ""),
    }
    # The outer dumps makes a C string literal of the JSON.
    text = f"#define IPUFEED_BUILD_INFO {json.dumps(json.dumps(info))}\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def link(path, target):
    """Makes a link to `target`, in place of the one that is there."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def empty_if_moved(folder):
    """Deletes a build of another place: CMake refuses one that was moved or copied."""
    cache = folder / "CMakeCache.txt"
    if not cache.exists():
        return
    lines = cache.read_text(errors="replace").splitlines()
    places = {
        "CMAKE_HOME_DIRECTORY:INTERNAL": SOURCES.resolve(),
        "CMAKE_CACHEFILE_DIR:INTERNAL": folder,
    }
    if not all(f"{name}={place}" in lines for name, place in places.items()):
        shutil.rmtree(folder)


def run(*command):
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        fail(f"this command failed, see above: {shlex.join(command)}")


class BuildNative(build_ext):
    """Calls CMake and Ninja."""

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + ".so"

    def build_extension(self, ext):
        """Compiles what has changed, and links the library."""
        launcher, compiler, flags = find_compiler()
        sanitizer = find_sanitizer()
        version, tensorflow, abi = find_tensorflow()
        cmake, ninja = find_tool("cmake"), find_tool("ninja")
        # An editable install gets a new build_temp each time, and would compile all.
        temporary = "build/editable" if self.editable_mode else self.build_temp
        folder = (Path(temporary) / (sanitizer or "release")).resolve()
        empty_if_moved(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # pip builds against a TensorFlow in another folder each time.
        link(folder / "tensorflow", tensorflow)
        write_build_info(folder / "build_info.h", version, sanitizer)
        values = {
            "CMAKE_MAKE_PROGRAM": ninja,
            "CMAKE_CXX_COMPILER": shutil.which(compiler),
            "CMAKE_CXX_COMPILER_LAUNCHER": ";".join(launcher),
            "CMAKE_CXX_FLAGS": shlex.join(flags),
            "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
            "TENSORFLOW": folder / "tensorflow",
            "TENSORFLOW_VERSION": version,
            "TENSORFLOW_FLAGS": ";".join(abi),
            "BUILD_INFO": folder / "build_info.h",
            "SANITIZER": sanitizer,
        }
        settings = [f"-D{name}={value}" for name, value in values.items()]
        # Without these ccache does not keep what a precompiled header goes into.
        os.environ.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
        run(cmake, "-S", str(SOURCES), "-B", str(folder), "-G", "Ninja", *settings)
        jobs = os.environ.get("MAX_JOBS") or str(len(os.sched_getaffinity(0)))
        run(ninja, "-C", str(folder), "-j", jobs)
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "libipufeed.so", target)
        if self.editable_mode:  # where editors look for it
            link(Path("build/compile_commands.json"), folder / "compile_commands.json")


class AnyPython(bdist_wheel):
    """The library is not a Python module: one wheel serves each Python of the platform."""

    def get_tag(self):
        """The wheel's tag: Python, ABI and platform."""
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[
        Extension(
            "ipufeed.libipufeed",
            sources=sorted(str(path) for path in SOURCES.rglob("*.cc")),
            depends=sorted(str(path) for path in SOURCES.rglob("*.h")),
        )
    ],
    cmdclass={"bdist_wheel": AnyPython, "build_ext": BuildNative},
)
