"""When the command imports TensorFlow: as the dataset file does, or behind it."""

import os
import re
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT

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


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("text", [ALONE, WITH_TENSORFLOW], ids=["alone", "tensorflow"])
def test_a_file_that_imports_torch_gets_triton_first(tmp_path, text):
    """Triton crashes the process behind TensorFlow, whose first op finds the IPUs."""
    files = {"torch.py": "", "triton.py": TRITON, "feed.py": BEGINNING + text}
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
    if text is WITH_TENSORFLOW:
        assert re.search("[1-9] IPUs", done.stderr)
