"""Where the JSON may go: whole or not at all, and never in the place of something else."""

import os
import stat

import pytest

from ipufeed.benchmark import measure
from ipufeed.render.files import is_stream, why_not_writable, write_whole


@pytest.fixture(scope="module")
def result():
    """Any result."""
    import tensorflow as tf

    return measure(tf.data.Dataset.range(3))


def test_a_link_stays_a_link(result, tmp_path):
    """What it points to is written."""
    (tmp_path / "runs").mkdir()
    target = tmp_path / "runs" / "first.json"
    link = tmp_path / "latest.json"
    link.symlink_to(target)

    result.write(link)

    assert link.is_symlink()
    assert target.read_text() == result.to_json() + "\n"


def test_an_open_file_is_written_to_and_not_replaced(result, tmp_path):
    """/dev/fd/N, as /dev/stderr is, may be a file that holds more than the result."""
    log = tmp_path / "log"
    with log.open("w") as file:
        file.write("before\n")
        file.flush()
        path = f"/dev/fd/{file.fileno()}"

        assert is_stream(path)
        result.write(path)
        file.write("after\n")

    assert log.read_text() == "before\n" + result.to_json() + "\nafter\n"


def test_a_file_that_cannot_be_written_is_an_error_before_the_measurement(tmp_path):
    """The reason is the system's, and nothing is left behind."""
    (tmp_path / "old.json").write_text("old")

    assert why_not_writable(str(tmp_path / "new.json")) is None
    assert why_not_writable(str(tmp_path / "old.json")) is None
    assert why_not_writable(os.devnull) is None
    assert "empty" in why_not_writable("")
    assert "folder" in why_not_writable(str(tmp_path))
    assert "folder" in why_not_writable(str(tmp_path / "gone" / "new.json"))
    assert "too long" in why_not_writable(str(tmp_path / ("a" * 300)))
    assert (tmp_path / "old.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]


def test_a_file_with_a_mode_has_it_and_replaces_a_link(tmp_path):
    """A private file: the target of a link that was there stays as it is."""
    target, path = tmp_path / "target", tmp_path / "private"
    target.write_bytes(b"other")
    path.symlink_to(target)

    write_whole(path, b"content", mode=0o600)

    assert path.read_bytes() == b"content"
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert target.read_bytes() == b"other"
    assert sorted(tmp_path.iterdir()) == [path, target]
