"""--cold as a user calls it: one process, and what the options refuse without one."""

import json
import os
import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT

from ipufeed.benchmark.cli.main import main
from ipufeed.benchmark.cold import page_cache

TEXT = """
import tensorflow as tf
def make_dataset(path: str):
    return tf.data.FixedLengthRecordDataset(path, 4096, name="read")
"""


@pytest.mark.process
def test_the_command_drops_the_files_and_reports_it(tmp_path):
    """The JSON has `cold`, the summary a row, and the exit code is that of any run."""
    if page_cache.file_system(str(tmp_path)) in page_cache.IN_MEMORY:
        pytest.skip("the folder for temporary files is in memory: nothing can be cold")
    (tmp_path / "dataset.py").write_text(TEXT)
    (tmp_path / "data.bin").write_bytes(b"x" * 409_600)
    done = children.run(
        [
            *(sys.executable, "-m", "ipufeed.benchmark", str(tmp_path / "dataset.py")),
            *("--set", f"path={tmp_path / 'data.bin'}", "--passes", "2", "--cold"),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=ROOT,
        env=os.environ,
    )
    result = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert result["cold"]["paths"] == [str(tmp_path / "data.bin")]
    assert (result["cold"]["drops"], result["cold"]["cached_bytes_left"]) == (2, 0)
    assert [epoch["elements_processed"] for epoch in result["epochs"]] == [100, 100]
    output = " ".join(done.stderr.split())
    assert "1 file of 410 kB dropped 2 times" in output
    assert "stages not with --cold: run without it to see them" in output


@pytest.mark.parametrize("options", [["--cold"], ["--cold-files", "*.bin"]])
def test_a_cold_run_is_not_through_the_device(options, capsys):
    """The two do not go together, and the message says which to leave out."""
    with pytest.raises(SystemExit) as caught:
        main(["dataset.py", "--through", "device", *options])

    assert caught.value.code == 2
    assert "leave out --through, or --cold" in capsys.readouterr().err
