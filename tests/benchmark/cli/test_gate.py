"""Messages on options' values, and on the runs that a comparison rests on."""

import types

import pytest

from ipufeed.benchmark.cli.main import main
from ipufeed.benchmark.comparing.notes import warned


@pytest.mark.parametrize(
    ("option", "value", "output"),
    [
        ("--fail-if-slower", "-5%", "must be a fraction from 0% to below 100%"),
        ("--step-time", "-5ms", "--step-time must be a time with its unit"),
        ("--seconds", "-1", "--seconds must be"),
    ],
)
def test_a_negative_value_is_refused_for_what_it_is(option, value, output, capsys):
    """Not as an unknown option; with the range, and what was given."""
    with pytest.raises(SystemExit) as caught:
        main(["dataset.py", option, value])

    refusal = " ".join(capsys.readouterr().err.split())
    assert caught.value.code == 2
    assert output in refusal
    assert value in refusal


@pytest.mark.parametrize(
    ("names", "output"),
    [
        (["a.json"], "a.json was measured on a busy machine"),
        (["a.json", "this run"], "a.json and this run were measured on a busy machine"),
        (["a", "b", "c"], "a, b and c were measured on a busy machine"),
    ],
)
def test_a_note_names_its_runs_in_a_sentence(names, output):
    """One was, several were; the last one behind an `and`."""
    runs = [
        types.SimpleNamespace(name=name, warnings=["busy_machine"]) for name in names
    ]

    (note,) = warned(runs)

    assert note.message.startswith(output)
