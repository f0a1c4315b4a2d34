"""How the native library is compiled; what the package is stands in setup.cfg.

One plain shared library, `ipufeed/libipufeed.so`, with TensorFlow ops and a few C entry
points. It is no Python module: ipufeed/_native.py loads it, once it has read what the
library was built against and from (c_api.cc keeps that as a text in it).

Environment:
    CXX: the compiler, default g++.
    IPUFEED_SANITIZE: `thread` or `address` builds with that sanitizer. Python must then
        be started with the sanitizer's run-time library preloaded.
    MAX_JOBS: compilers at a time, default one per CPU; each needs 1 to 2.5 GB.

Nearly all of the time goes into TensorFlow's headers, 10 s for most sources and a minute
for those of XLA. So the sources are compiled as two bundles, each of which reads them once;
names in a bundle have to differ, also those in unnamed namespaces. An editable install
compiles each source on its own, and afterwards what has changed.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

SOURCES = Path("ipufeed/cc")
NEEDS_TENSORFLOW = "2.21"

COMMON = ["-std=c++17", "-fPIC", "-DNDEBUG", "-fvisibility=hidden", "-pthread"]
COMMON += ["-iquote.", f"-iquote{SOURCES}"]  # bundles; files name each other
COMMON += ["-DEIGEN_USE_THREADS"]  # must stand before the first header of Eigen
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror=return-type"]
HARDENING = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
LINK_HARDENING = ["-Wl,-z,relro,-z,now", "-Wl,-z,noexecstack"]
SANITIZERS = {"thread": "libtsan.so", "address": "libasan.so"}


def fail(message):
    """Stops the build with a message that pip shows last."""
    raise CompileError(f"ipufeed: {message}")


def find_compiler():
    command = shlex.split(os.environ.get("CXX") or "g++")
    if shutil.which(command[0]) is None:
        fail(
            f"the C++ compiler `{command[0]}` was not found. Install one (Debian and "
            "Ubuntu: apt-get install g++) or name yours in the environment variable CXX."
        )
    return command


def find_tensorflow():
    """The installed TensorFlow's version, folders, and compile flags."""
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
    # As system headers, so that our own code can be compiled with all warnings on.
    flags = [
        "-isystem" + flag[2:] if flag.startswith("-I") else flag
        for flag in tf.sysconfig.get_compile_flags()
        if not flag.startswith("--std")
    ]
    # What XLA's headers include, and the flags leave out.
    flags += [
        f"-isystem{include}/external/{folder}"
        for folder in ("highwayhash", "farmhash_archive/src")
    ]
    # And what they include that the wheel does not have.
    flags.append(f"-isystem{SOURCES / 'stubs'}")
    return tf.__version__, Path(tf.sysconfig.get_lib()), include, flags


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


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stdout or done.stderr:
        print(done.stdout + done.stderr, flush=True)
    if done.returncode != 0:
        fail(f"this command failed, see above: {shlex.join(command)}")


class BuildNative(build_ext):
    """Compiles and links with the flags that TensorFlow was built with."""

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + ".so"

    def build_extension(self, ext):
        """Compiles the sources, a few at a time, and links them."""
        compiler = find_compiler()
        sanitizer = find_sanitizer()
        version, library_folder, include, flags = find_tensorflow()
        if sanitizer:
            # Fortified functions hide memory errors from the sanitizers.
            flags += ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={sanitizer}"]
            # Abseil's containers change their layout when they see these, and TensorFlow
            # was built without. The instrumentation does not depend on them.
            flags += ["-U__SANITIZE_ADDRESS__", "-U__SANITIZE_THREAD__"]
        else:
            flags += ["-O2", "-g0", *HARDENING]
        info = {
            "tensorflow": version,
            "sources": fingerprint(SOURCES),
            "sanitizer": sanitizer,
            "sanitizer_library": SANITIZERS.get(sanitizer, ""),
        }
        # The outer dumps makes a C string literal of the JSON.
        info_flag = f"-DIPUFEED_BUILD_INFO={json.dumps(json.dumps(info))}"
        command = [*compiler, *COMMON, *WARNINGS, *flags]
        # pip builds against a TensorFlow in another folder each time.
        self.include = str(include)
        compiled_by = [identity(compiler), version]
        # An editable install gets a new build_temp each time, and would compile all.
        temporary = "build/editable" if self.editable_mode else self.build_temp
        objects = Path(temporary) / (sanitizer or "release")
        objects.mkdir(parents=True, exist_ok=True)
        sources = ext.sources if self.editable_mode else bundled(ext.sources, objects)
        jobs = int(os.environ.get("MAX_JOBS") or len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(jobs) as pool:
            outputs = list(
                pool.map(
                    lambda source: self.compile_one(
                        [*command, info_flag] if holds_info(source) else command,
                        compiled_by,
                        source,
                        objects,
                    ),
                    sources,
                )
            )
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        link = [*compiler, "-shared", "-pthread", *map(str, outputs), "-o", str(target)]
        link += [f"-L{library_folder}", "-l:libtensorflow_framework.so.2"]
        link += ["-l:libtensorflow_cc.so.2", *LINK_HARDENING]
        link += [f"-fsanitize={sanitizer}"] if sanitizer else ["-Wl,-z,defs", "-s"]
        run(link)

    def compile_one(self, command, compiled_by, source, folder):
        """Compiles a source, unless the object from before was made of the same."""
        flags = [flag.replace(self.include, "include") for flag in command]
        compiled_by = [*compiled_by, *flags]
        output = folder / (Path(source).stem + ".o")
        listed = output.with_suffix(".d")  # all headers; written by the compiler
        made_of = output.with_suffix(".sum")
        known = output.exists() and made_of.exists()
        if known and made_of.read_text() == sum_of(compiled_by, listed):
            return output
        made_of.unlink(missing_ok=True)  # there is one for whole objects only
        run([*command, "-MD", "-c", source, "-o", str(output)])
        made_of.write_text(sum_of(compiled_by, listed))
        return output


def holds_info(source):
    """Whether a source has the library's description of itself in it."""
    return Path(source).name == "c_api.cc"


def bundled(sources, folder):
    """Writes bundles of the sources; returns what to compile, what takes longest first."""

    def headers(path, seen):
        """What a source includes, itself or through our own headers."""
        for name in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            if name not in seen:
                seen.add(name)
                if (SOURCES / name).exists():
                    headers(SOURCES / name, seen)
        return seen

    def needs_xla(source):
        return any(
            name.startswith(("xla/", "tensorflow/compiler/"))
            for name in headers(Path(source), set())
        )

    found = {"bundle_xla": [], "bundle_others": []}
    alone = []
    for source in sources:
        if holds_info(source):
            alone.append(source)
        else:
            found["bundle_xla" if needs_xla(source) else "bundle_others"].append(source)
    written = []
    for name, members in found.items():
        bundle = folder / f"{name}.cc"
        bundle.write_text("".join(f'#include "{member}"\n' for member in members))
        written.append(str(bundle))
    return [*written, *alone]


def identity(compiler):
    """What tells a compiler from another of the same name."""
    done = subprocess.run(
        [*compiler, "--version"], capture_output=True, text=True, check=False
    )
    return done.stdout


def sum_of(compiled_by, listed):
    """A hash of what an object was made of: compiler, flags, and our own files.

    TensorFlow's headers are those of its version, which is among the flags.
    """
    digest = hashlib.sha256("\0".join(compiled_by).encode())
    try:
        names = listed.read_text().replace("\\\n", " ").split()[1:]
        for name in map(os.path.normpath, names):
            if name.startswith(str(SOURCES)):
                digest.update(name.encode() + b"\0" + Path(name).read_bytes() + b"\0")
    except OSError:  # a file has gone: equal to nothing
        return "missing " + os.urandom(8).hex()
    return digest.hexdigest()


setup(
    ext_modules=[
        Extension(
            "ipufeed.libipufeed",
            sources=sorted(str(path) for path in SOURCES.rglob("*.cc")),
            depends=sorted(str(path) for path in SOURCES.rglob("*.h")),
        )
    ],
    cmdclass={"build_ext": BuildNative},
)
