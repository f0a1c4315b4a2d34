"""What the JSON's form promises: the same values, strict, in lines that can be read."""

import json

import pytest

from ipufeed.benchmark.result.json_text import json_text

VALUE = {
    "text": 'a "name"\n\u202e \U0001f600',
    "numbers": [1, 2.5, True, None, "x"],
    "objects": [{"a": 1}, {"b": []}],
    "nested": [[1, 2], []],
    "empty": {},
    "none": None,
}


def test_it_is_read_as_what_it_was_made_of():
    """Any value that JSON has."""
    assert json.loads(json_text(VALUE)) == VALUE


def test_a_list_of_plain_values_is_one_line():
    """500 windows of time take eight lines, not four thousand."""
    lines = json_text(VALUE).splitlines()

    assert '  "numbers": [1, 2.5, true, null, "x"],' in lines
    assert '      "a": 1' in lines


def test_what_json_cannot_hold_becomes_null():
    """At any depth."""
    text = json_text(
        {"a": float("nan"), "b": [float("inf"), 1.0], "c": (-float("inf"),)}
    )

    assert json.loads(text) == {"a": None, "b": [None, 1.0], "c": [None]}


def test_an_unknown_kind_is_refused():
    """As json.dumps does."""
    with pytest.raises(TypeError):
        json_text({"a": object()})
