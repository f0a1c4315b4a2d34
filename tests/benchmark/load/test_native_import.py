"""When the command imports TensorFlow: as the dataset file does, or behind it."""

import os
import re
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT

from ipufeed.benchmark.load import native_import

# In place of the real one: whether TensorFlow was there before it.
TRITON = """
import pathlib, sys
there = hasattr(sys.modules.get("tensorflow"), "__version__")
pathlib.Path("triton.txt").write_text("second" if there else "first")
"""
BEGINNING = """
import sys, torch
assert "tensorflow" not in sys.modules
"""
ALONE = """
def loader():
    yield from range(3)
"""
WITH_TENSORFLOW = """
import tensorflow as tf
print(len(tf.config.list_physical_devices("IPU")), "IPUs")
dataset = tf.data.Dataset.range(3)
"""


# A module that imports torch: its own import may be in the function alone.
LATER = """
import sys
def make_loader():
    import torch
    return iter(range(3))
"""
LATER_WITH_TENSORFLOW = LATER + "import tensorflow as tf\n"


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(
    "text",
    [
        BEGINNING + ALONE,
        BEGINNING + WITH_TENSORFLOW,
        LATER,
        LATER_WITH_TENSORFLOW,
    ],
    ids=["alone", "tensorflow", "later", "later, with tensorflow"],
)
def test_a_file_that_imports_torch_gets_triton_first(tmp_path, text):
    """Triton crashes the process behind TensorFlow, whose first op finds the IPUs."""
    files = {"torch.py": "", "triton.py": TRITON, "feed.py": text}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    done = subprocess.run(  # not forked from a process that has TensorFlow
        [sys.executable, "-m", "ipufeed.benchmark", "feed.py"],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 0, done.stderr
    assert '"elements_processed": 3' in done.stdout
    assert (tmp_path / "triton.txt").read_text() == "first"
    if "IPUs" in text:
        assert re.search("[1-9] IPUs", done.stderr)


@pytest.mark.process
def test_a_program_that_imports_torch_gets_triton_first(tmp_path):
    """Before the package, whose import is that of TensorFlow."""
    for name, content in {"torch.py": "", "triton.py": TRITON}.items():
        (tmp_path / name).write_text(content)
    subprocess.run(
        [sys.executable, "-c", "import torch, ipufeed"],
        timeout=DEADLOCK_S,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert (tmp_path / "triton.txt").read_text() == "first"


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("def f():\n    import torchvision.datasets", True),
        ("class A:\n    def f(self):\n        from monai import data", True),
        (
            "def f():\n    import tensorflow.data, numpy, os.path\n    from . import x",
            False,
        ),
        ("import torchvision", False),
        ("def f(:", False),
    ],
    ids=["import", "from", "without torch", "at the top", "not Python"],
)
def test_imports_in_functions_may_be_of_torch(tmp_path, text, imports):
    """Those at the top level have been made when TensorFlow is imported."""
    file = tmp_path / "feed.py"
    file.write_text(text)

    assert native_import._imports_later(file) is imports
