"""ipufeed/cc/base/cancellation.h against TensorFlow's own CancellationManager."""

import pathlib
import re
import subprocess

import pytest
import tensorflow as tf
from helpers import DEADLOCK_S

pytestmark = pytest.mark.long

HERE = pathlib.Path(__file__).parent
SOURCES = HERE.parents[1] / "ipufeed" / "cc"


@pytest.mark.process
def test_a_cancellation_under_way_counts_as_one(tmp_path):
    """TensorFlow refuses to register a callback then, and its flag is not raised yet."""
    program = tmp_path / "cancellation"
    library = pathlib.Path(tf.sysconfig.get_lib())
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-O0",
            f"-I{SOURCES}",
            f"-I{tf.sysconfig.get_include()}",
            *tf.sysconfig.get_compile_flags(),
            str(HERE / "cancellation.cc"),
            *tf.sysconfig.get_link_flags(),
            f"-Wl,-rpath,{library}",
            f"-Wl,-rpath-link,{library}",
            "-pthread",
            "-o",
            str(program),
        ],
        check=True,
        timeout=DEADLOCK_S,
    )
    done = subprocess.run([str(program)], timeout=DEADLOCK_S, check=False)
    assert done.returncode == 0


def test_all_waits_for_a_cancellation_use_it():
    """A registration of its own would have to get right what this one does."""
    for path in SOURCES.rglob("*.*"):
        if path.suffix not in (".cc", ".h") or path.name == "cancellation.h":
            continue
        for manager in re.findall(r"(\w+)->RegisterCallback\(", path.read_text()):
            assert manager == "cancellation_", path  # a dataset's own, in its iterator
