"""Copies of a tree of options, and its dicts, JSON and repr."""

import copy
import json
import pickle

import pytest
from house_tree import Colour, House


def changed() -> House:
    """A house with something else than the default everywhere that matters."""
    house = House()
    house.rooms = (1, 2)
    house.walls.paint.colour = Colour.BLUE
    house.walls.options["gloss"] = "high"
    return house


@pytest.mark.parametrize(
    "twin",
    [
        copy.copy,
        copy.deepcopy,
        lambda house: pickle.loads(pickle.dumps(house)),
        lambda house: House.from_dict(house.to_dict()),
        lambda house: House.from_json(house.to_json()),
    ],
    ids=["copy", "deepcopy", "pickle", "dict", "json"],
)
def test_a_twin_is_equal_and_its_own(twin):
    """Every way to copy keeps all values; setting one side changes only that side."""
    house = changed()
    other = twin(house)

    assert other == house
    assert type(other) is House
    other.walls.paint.layers = 7
    other.name = "other"
    assert (house.walls.paint.layers, house.name) == (1, "")
    with pytest.raises(TypeError, match=r"walls\.paint\.layers"):
        other.walls.paint.layers = "two"


def test_a_deep_copy_shares_no_dict():
    """Options filled in the copy stay in the copy."""
    house = changed()
    copy.deepcopy(house).walls.options["gloss"] = "low"
    house.to_dict()["walls.options"]["gloss"] = "low"

    assert house.walls.options == {"gloss": "high"}


def test_equality_compares_all_values():
    """One different value anywhere is a difference; a list and a tuple are not."""
    house = changed()

    assert house != House()
    house.walls.paint.colour = Colour.RED
    house.walls.options.clear()
    assert house != House()
    house.rooms = []
    assert house == House()
    house.rooms, other = (1, 2), House.from_dict({"rooms": [1, 2]})
    assert house == other
    assert house != "a house"
    assert house.walls != house.walls.paint


def test_a_tree_has_no_hash():
    """It can be changed, so it must not be a key."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(House())


def test_to_dict_is_flat():
    """Keys are full names, and enumerations' members are their values."""
    values = changed().to_dict()

    assert values["rooms"] == (1, 2)
    assert values["walls.paint.colour"] == Colour.BLUE.value
    assert values["walls.options"] == {"gloss": "high"}
    assert "walls" not in values
    assert json.loads(changed().to_json()) == json.loads(json.dumps(values))


def test_from_dict_warns_of_what_is_missing(caplog):
    """On an instance: its value stays. What is there is not named."""
    values = House().to_dict()
    del values["walls.paint.layers"]
    house = changed()
    house.walls.paint.layers = 5

    assert house.from_dict(values) is None
    assert house.walls.paint.layers == 5
    assert caplog.messages == [
        "walls.paint.layers didn't have a value: the existing value will be retained"
    ]
    assert house.from_json(House().to_json()) is None
    assert house == House()


@pytest.mark.parametrize("colour", [Colour.BLUE, "BLUE", 2])
def test_from_dict_takes_members_names_and_values(colour):
    """What JSON or a command line makes of an enumeration is understood."""
    house = House.from_dict({"walls": {"paint": {"colour": colour}}})

    assert house.walls.paint.colour is Colour.BLUE


def test_from_dict_changes_what_it_names_and_nothing_else():
    """On an instance the rest stays; full names are keys too."""
    house = changed()
    house.from_dict({"walls.paint": {"layers": 4}, "name": "new"})

    assert (house.name, house.walls.paint.layers) == ("new", 4)
    assert (house.rooms, house.walls.paint.colour) == ((1, 2), Colour.BLUE)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ({"opne": True}, ValueError, "'opne' is not a valid attribute"),
        ({"walls": {"opne": 1}}, ValueError, "Did you mean 'open'"),
        (
            {"open": 1},
            TypeError,
            "Trying to set open to 1, but it must be of type bool, got int 1",
        ),
        ({"walls.paint.colour": "GREEN"}, TypeError, "colour to GREEN, but it must be"),
        ({"walls.paint.colour": True}, TypeError, "colour to True, but it must be"),
        ({"walls": 3}, TypeError, "walls is a category and must be given as a dict"),
        ([], TypeError, r"^[A-Z]\w+ must be given as a dict, got \[\]"),
    ],
)
def test_a_bad_dict_changes_nothing(bad, error, message):
    """It is checked as a whole before any of it is used."""
    house = changed()
    before = house.to_dict()
    source = {"name": "new", **bad} if isinstance(bad, dict) else bad

    with pytest.raises(error, match=message):
        house.from_dict(source)

    assert house.to_dict() == before


def test_a_dict_is_copied():
    """Filling it afterwards changes no tree."""
    options = {"gloss": "high"}
    house = House.from_dict({"walls": {"options": options}})
    options["gloss"] = "low"

    assert house.walls.options == {"gloss": "high"}


@pytest.mark.parametrize("text", ["", "{", "rooms: 3"])
def test_what_is_not_json_is_refused(text):
    """As a ValueError, which json's own error is."""
    with pytest.raises(ValueError, match="Expecting"):
        House.from_json(text)


def test_what_cannot_be_json_is_refused():
    """An object among options is named, not written as something else."""
    house = House()
    house.walls.options["when"] = object()

    with pytest.raises(TypeError, match="of type object cannot be JSON"):
        house.to_json()


def test_a_round_trip_warns_of_deprecated_attributes_only_if_they_are_set(caplog):
    """A default is not a choice of the user; another value is."""
    House.from_dict(House().to_dict())
    assert caplog.messages == []
    House.from_dict({"walls": {"paint": {"old_colour": True}}})

    assert len(caplog.messages) == 1


def test_repr_has_a_line_for_each_attribute():
    """With its full name, in the order of declaration; str leaves out the first line."""
    lines = [
        "walls.switch = Switch.OFF",
        "walls.options = {'gloss': 'high'}",
        "walls.paint.colour = Colour.BLUE",
        "walls.paint.layers = 1",
        "walls.paint.old_colour = False",
    ]
    walls = changed().walls

    assert str(walls) == "\n".join(lines)
    assert repr(walls) == "\n".join(["Walls:", *(f"  {line}" for line in lines)])
    assert "  name = ''" in repr(changed())


def test_a_subclass_has_what_its_base_has():
    """A user's own config may add attributes and set others when it is made."""

    class Cottage(House):
        thatch: bool = True

        def __init__(self):
            super().__init__()
            self.rooms = 2

    cottage = Cottage()

    assert (cottage.rooms, cottage.thatch, cottage.height) == (2, True, 2.5)
    assert copy.deepcopy(cottage) == cottage
    with pytest.raises(ValueError, match="'thatch' is not a valid attribute"):
        House().thatch = True


def test_attributes_gives_each_with_its_value():
    """Every attribute of the tree, once."""
    values = {meta.name: value for meta, value in changed().attributes()}

    assert sorted(values) == [
        "height",
        "name",
        "open",
        "rooms",
        "walls.options",
        "walls.paint.colour",
        "walls.paint.layers",
        "walls.paint.old_colour",
        "walls.switch",
    ]
    assert values["walls.options"] == {"gloss": "high"}
