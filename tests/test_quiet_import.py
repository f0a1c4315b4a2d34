"""What is silent while TensorFlow is imported, and what is not."""

import os

import pytest

from ipufeed._quiet_import import LEVEL, quiet_stderr


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """The user has not set a level."""
    monkeypatch.delenv(LEVEL, raising=False)


def fail(error, words):
    """An import that says something, and does not get to its end."""
    with quiet_stderr("3"):
        os.write(2, words)
        raise error


def test_chatter_is_silent_and_the_environment_as_before(capfd):
    """Children that a dataset starts later do not inherit our setting."""
    with quiet_stderr("3"):
        os.write(2, b"chatter\n")
        assert os.environ[LEVEL] == "3"
    os.write(2, b"after\n")

    assert capfd.readouterr().err == "after\n"
    assert LEVEL not in os.environ


def test_a_failed_import_shows_its_log(capfd):
    """The cause may be in it."""
    with pytest.raises(ImportError):
        fail(ImportError, b"the cause\n")

    assert capfd.readouterr().err == "the cause\n"
    assert LEVEL not in os.environ


def test_an_interrupted_import_shows_nothing(capfd):
    """After Ctrl-C the user does not want to read about GPUs."""
    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt, b"chatter\n")

    assert capfd.readouterr().err == ""
    assert LEVEL not in os.environ


def test_a_level_that_is_set_lets_its_messages_through(capfd, monkeypatch):
    """It is theirs, and stays."""
    monkeypatch.setenv(LEVEL, "1")

    with quiet_stderr("3"):
        os.write(2, b"wanted\n")

    assert capfd.readouterr().err == "wanted\n"
    assert os.environ[LEVEL] == "1"
