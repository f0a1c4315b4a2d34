"""Compiles the C++ programs of benchmarks/cc, once per content, and runs them.

They depend on the headers of ipufeed/cc only: no figure includes TensorFlow. The
binaries stay in a folder of the user's own below the system's temporary folder, named
after a hash of everything that goes into them.

    python -m benchmarks.native [--rounds N]     the ring's figures as a table
"""

import functools
import hashlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).parent / "cc"
HEADERS = pathlib.Path(__file__).parents[1] / "ipufeed" / "cc"
FLAGS = ("-O2", "-std=c++17", "-DNDEBUG", "-pthread")
COMPILE_LIMIT_S = 300.0
ROUND_LIMIT_S = 20.0  # a round takes about half a second on a quiet machine


def cache_folder() -> pathlib.Path:
    """Returns the folder for binaries, which no other user can write to.

    Raises:
        PermissionError: the folder exists and is not ours alone.
    """
    folder = pathlib.Path(tempfile.gettempdir()) / f"ipufeed-bench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or found.st_mode & 0o077:
        raise PermissionError(
            f"{folder} must be a folder of yours with mode 0700: it holds programs "
            "that are run. Remove it."
        )
    return folder


def has_boost() -> bool:
    """Whether Boost's headers are there, which adds cases to ring_bench."""
    return pathlib.Path("/usr/include/boost/lockfree/spsc_queue.hpp").exists()


def build(name: str, flags: tuple[str, ...] = ()) -> pathlib.Path:
    """Compiles benchmarks/cc/<name>.cc, or finds what an earlier call compiled.

    Args:
        name: The program, without ".cc".
        flags: Compiler flags after the usual ones (`FLAGS`).

    Returns:
        The binary.

    Raises:
        FileNotFoundError: g++ is missing, or the program does not exist.
        RuntimeError: the program does not compile; the message is the compiler's.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise FileNotFoundError(
            "g++ is missing, which compiles the native benchmarks: apt-get install g++"
        )
    source = PROGRAMS / f"{name}.cc"
    version = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True
    ).stdout
    key = hashlib.blake2b(digest_size=16)
    for text in (version, *FLAGS, *flags, "boost" if has_boost() else ""):
        key.update(text.encode() + b"\0")
    for path in (source, *sorted(HEADERS.rglob("*.h"))):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = cache_folder()
    binary = folder / f"{name}-{key.hexdigest()}"
    if binary.exists():
        return binary

    handle, unfinished = tempfile.mkstemp(prefix=name, dir=folder)
    os.close(handle)
    try:
        command = [compiler, *FLAGS, *flags, f"-I{HEADERS}", str(source)]
        done = subprocess.run(
            [*command, "-o", unfinished],
            capture_output=True,
            text=True,
            timeout=COMPILE_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{source} does not compile:\n{done.stderr}")
        os.chmod(unfinished, 0o700)
        os.rename(unfinished, binary)
    finally:
        pathlib.Path(unfinished).unlink(missing_ok=True)
    return binary


@functools.cache
def ring_bench(rounds: int = 15) -> dict:
    """Runs ring_bench once per process, and returns what it printed.

    Args:
        rounds: Repeats of every case, interleaved. About half a second each.

    Raises:
        RuntimeError: a checksum was wrong, or the run failed otherwise.
    """
    done = subprocess.run(
        [build("ring_bench"), "--rounds", str(rounds)],
        capture_output=True,
        text=True,
        timeout=ROUND_LIMIT_S * (rounds + 1),
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"ring_bench failed:\n{done.stderr}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["--rounds", "15"]
    sys.exit(subprocess.run([build("ring_bench"), "--table", *arguments]).returncode)
