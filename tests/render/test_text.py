"""Paragraphs of the summary and of messages: what fits a terminal, and what is copied."""

import pytest

from ipufeed.render.terminal import wrap


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """Stderr is a terminal of 80 columns."""
    monkeypatch.setattr("ipufeed.render.terminal.columns", lambda stream: 80)


def test_a_paragraph_fits_the_terminal():
    """What follows the first line is indented, so that the next message stands out."""
    lines = wrap("word " * 40, indent="  ")

    assert max(len(line) for line in lines) <= 79
    assert [len(line) - len(line.lstrip()) for line in lines] == [2, 4, 4]


def test_a_word_stays_whole():
    """A path that was torn could not be copied."""
    path = "/a-path/with-hyphens" * 10

    assert path in [line.strip() for line in wrap(f"cannot read {path}: no")][1]


def test_control_characters_are_not_passed_on():
    """Nor is an empty line lost."""
    assert wrap("a\x1b[31mb\tc") == [r"a\x1b[31mb c"]
    assert wrap("") == [""]
