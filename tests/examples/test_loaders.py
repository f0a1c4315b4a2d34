"""The examples of other frameworks' loaders run where the framework is installed.

`pip install 'ipufeed[loaders]'` installs them all.
"""

import importlib.util
import json
import os
import sys
import tempfile

import children
import pytest
from helpers import DEADLOCK_S, ROOT

FOLDER = ROOT / "examples" / "loaders"
# The package, the kind, and what an element is.
EXAMPLES = {
    "generator": ("numpy", "generator", 64),
    "keras_dataset": ("keras", "keras PyDataset", 64),
    "torch_loader": ("torch", "torch DataLoader", 64),
    "grain_loader": ("grain", "grain", 64),
    "spdl_pipeline": ("spdl", "spdl Pipeline", 1),
    "ray_data": ("ray", "ray.data Dataset", 256),
    "hugging_face": ("datasets", "datasets Dataset", 64),
}


def test_each_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)


@pytest.mark.process
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_measured(name):
    package, kind, samples = EXAMPLES[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; the extra `loaders` brings it")
    file = str(FOLDER / f"{name}.py")
    # A short name: Ray's sockets are below it, and a socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        done = children.run(
            [sys.executable, "-m", "ipufeed.benchmark", file, "--seconds", "1"],
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLOCK_S,
            cwd=folder,
            env={**os.environ, "TMPDIR": folder},
        )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["error"] is None
    assert result["dataset"]["loader"].startswith(kind)
    assert result["dataset"]["samples_per_element"] == samples
    assert sum(epoch["elements_processed"] for epoch in result["epochs"]) > 1
