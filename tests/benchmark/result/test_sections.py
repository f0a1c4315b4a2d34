"""docs/result.md and the sections of a result name the same keys."""

import dataclasses
import re
import typing

import pytest
from helpers import ROOT

from ipufeed.benchmark import Comparison
from ipufeed.benchmark.result import sections
from ipufeed.benchmark.result.result import Result

TEXT = (ROOT / "docs" / "result.md").read_text()


def rows(head):
    """The keys in a table's first column."""
    table = TEXT.partition(f"| key in `{head}` |")[2].partition("\n\n")[0]
    return {
        key
        for line in table.splitlines()[2:]
        for key in re.findall(r"`(\w+)`", line.split("|")[1])
    }


def section_types():
    """By the attribute of a Result, the TypedDict of its section."""
    hints = typing.get_type_hints(Result)
    found = {}
    for field in dataclasses.fields(Result):
        parts = [hints[field.name]]
        for part in parts:  # which grows: of `list[Section] | None` all three
            parts += typing.get_args(part)
            if typing.is_typeddict(part):
                found[field.name] = part
    return found


def test_every_section_of_one_run_has_a_type():
    """The series has a column for each figure of the run."""
    names = {field.name for field in dataclasses.fields(Result)}
    assert set(section_types()) == names - {"series"}


def test_the_guide_has_each_key_of_a_device_and_no_other():
    """A key that is new needs a row that says how to read it."""
    assert rows("device") == set(sections.DeviceSection.__annotations__)


@pytest.mark.parametrize("name", ["stages", "advice", "what_if"])
def test_the_guide_has_each_key_of_the_rows_and_no_other(name):
    """Of the stages, and of what follows from them."""
    assert rows(name) == set(section_types()[name].__annotations__)


def test_the_guide_has_each_key_of_a_comparison():
    """They are the fields of a Comparison; the version stands in the JSON only."""
    section = TEXT.partition("## Comparisons")[2]
    table = section.partition("| key |")[2].partition("\n\n")[0]
    keys = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.M)))
    fields = {field.name for field in dataclasses.fields(Comparison)}

    assert {*keys} == fields
    assert {*sections.ComparisonSection.__annotations__} == fields | {"schema_version"}


def test_the_guide_has_each_section_and_no_other():
    """In the first table; the version stands in the JSON only."""
    table = TEXT.partition("| key |")[2].partition("\n\n")[0]
    keys = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    fields = [field.name for field in dataclasses.fields(Result)]
    assert sorted(keys) == sorted(["schema_version", *fields])


def test_a_result_has_the_keys_of_its_sections(measured):
    """Each key is declared; those that a section always has are there."""
    for name, kind in section_types().items():
        section = getattr(measured, name)
        for each in section if isinstance(section, list) else [section]:
            if each is not None:
                assert set(each) <= set(kind.__annotations__), name
                assert kind.__required_keys__ <= set(each), name


@pytest.fixture(scope="module")
def measured():
    """Of a run through the device, which has the most sections."""
    import tensorflow as tf

    from ipufeed.benchmark.device.measure import measure_through
    from ipufeed.benchmark.device.settings import DeviceSettings
    from ipufeed.benchmark.result.settings import Settings

    return measure_through(
        tf.data.Dataset.range(10**6).map(lambda n: tf.cast(n, tf.float32)),
        Settings(seconds=0.2),
        device=DeviceSettings(step_seconds=0.001),
    )
