"""What a tree of checked attributes promises, whatever stands in it."""

import copy
import json
import pickle
from enum import Enum
from typing import Annotated, Any

import numpy as np
import pytest

from ipufeed.device.config.metadata import Deprecated
from ipufeed.device.config.tree import Category
from ipufeed.errors import ConfigAttributeError, ConfigError


class Colour(Enum):
    RED = 1
    BLUE = 2


class Switch(Enum):
    OFF = 0
    ON = 1

    @classmethod
    def from_bool(cls, value):
        return cls.ON if value else cls.OFF


class Paint(Category):
    colour: Colour = Colour.RED
    layers: int = 1
    old_colour: Annotated[bool, Deprecated("use paint.colour instead.")] = False


class Walls(Category):
    paint: Paint
    switch: Switch = Switch.OFF
    options: dict[str, Any] = {}  # noqa: RUF012 - a default, which is copied


class House(Category):
    """A house.

    Attributes:
        rooms: How many there are,
            or their sizes.
        name: What it is called.
    """

    rooms: int | list[int] | tuple[int, ...] = []  # noqa: RUF012
    name: str = ""
    open: bool = False
    height: float = 2.5
    walls: Walls


def changed() -> House:
    """A house with something else than the default everywhere that matters."""
    house = House()
    house.rooms = (1, 2)
    house.walls.paint.colour = Colour.BLUE
    house.walls.options["gloss"] = "high"
    return house


def test_a_fresh_tree_has_the_defaults():
    """Every attribute has its declared default, at every depth."""
    house = House()

    assert (house.rooms, house.name, house.open, house.height) == ([], "", False, 2.5)
    assert house.walls.switch is Switch.OFF
    assert house.walls.paint.colour is Colour.RED


def test_two_trees_share_nothing():
    """A default that is filled in place is filled in one tree only."""
    one, other = House(), House()
    one.rooms.append(3)
    one.walls.options["gloss"] = "high"

    assert other.rooms == []
    assert other.walls.options == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("open", 1),
        ("open", "true"),
        ("open", None),
        ("name", b"bytes"),
        ("name", 1),
        ("height", "2"),
        ("height", True),
        ("rooms", True),
        ("rooms", 1.0),
        ("rooms", "12"),
        ("rooms", [1, "2"]),
        ("rooms", [1, True]),
        ("rooms", (1, 2.0)),
        ("rooms", {1, 2}),
        ("rooms", Switch.ON),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_the_full_story(name, value):
    """The TypeError names the attribute, the value and the type; nothing is changed."""
    house = House()
    before = house.to_dict()
    types = {"open": "bool", "name": "str", "height": "float"}
    wanted = types.get(name, "int | list[int] | tuple[int, ...]")

    with pytest.raises(TypeError) as caught:
        setattr(house, name, value)

    assert str(caught.value) == (
        f"Trying to set {name} to {value}, but it must be of type {wanted}"
    )
    assert house.to_dict() == before


def test_an_attribute_deep_in_the_tree_is_named_in_full():
    """So that one of several like-named attributes is found."""
    with pytest.raises(TypeError, match=r"Trying to set walls\.paint\.layers to two, "):
        House().walls.paint.layers = "two"
    with pytest.raises(TypeError, match=r"walls\.paint\.colour to 2, .* type Colour$"):
        House().walls.paint.colour = 2


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.int64(2), 2),
        (np.uint8(2), 2),
        ([np.int32(1), 2], [1, 2]),
        ((np.int32(1), 2), (1, 2)),
    ],
)
def test_numpy_integers_are_stored_as_pythons(value, stored):
    """What an array gives can be used, and is written as JSON afterwards."""
    house = House()
    house.rooms = value

    assert house.rooms == stored
    assert type(house.rooms) is type(stored)
    assert json.loads(house.to_json())["rooms"] == json.loads(json.dumps(stored))


def test_numpy_bools_and_floats_are_stored_as_pythons():
    """The result of a comparison is a bool, and an int a float where one is wanted."""
    house = House()
    house.open = np.bool_(True)
    house.height = np.float32(0.5)

    assert house.open is True
    assert type(house.height) is float
    house.height = 3
    assert type(house.height) is float


def test_a_bool_becomes_a_member_where_the_enumeration_says_how():
    """An attribute that once was a bool still takes one."""
    house = House()
    house.walls.switch = True

    assert house.walls.switch is Switch.ON
    house.walls.switch = np.bool_(False)
    assert house.walls.switch is Switch.OFF


def test_a_dict_that_was_assigned_can_be_filled_later():
    """The tree keeps what it is given, as any attribute does."""
    house, options = House(), {}
    house.walls.options = options
    options["gloss"] = "high"

    assert house.walls.options is options


@pytest.mark.parametrize(
    ("path", "wrong", "likely"),
    [
        ("", "opne", "open"),
        ("", "colour", "walls.paint.colour"),
        ("walls", "colour", "walls.paint.colour"),
        ("walls.paint", "layer", "walls.paint.layers"),
        ("walls", "name", "name"),
        ("", "wall", "walls"),
        ("", "pant", "walls.paint"),
    ],
)
def test_an_unknown_name_is_refused_and_a_likely_one_named(path, wrong, likely):
    """Errors of setting and reading name what may have been meant, by its full name."""
    category = House()
    for part in filter(None, path.split(".")):
        category = getattr(category, part)
    message = (
        f"'{wrong}' is not a valid attribute of this config. Did you mean '{likely}'?"
    )

    with pytest.raises(ValueError, match="not a valid attribute") as caught:
        setattr(category, wrong, 1)
    assert str(caught.value) == message
    with pytest.raises(ConfigAttributeError) as caught:
        getattr(category, wrong)
    assert str(caught.value) == message


def test_a_name_like_no_other_gets_no_suggestion():
    """A guess that cannot be right would only mislead."""
    with pytest.raises(ValueError, match="attribute of this config") as caught:
        House().zzzzqqq = 1

    assert str(caught.value) == "'zzzzqqq' is not a valid attribute of this config."


def test_a_path_is_no_name():
    """Python's setattr takes a name; what it would set could not be read."""
    with pytest.raises(
        ValueError, match=r"'walls\.paint\.layers' is not a valid attri"
    ):
        setattr(House(), "walls.paint.layers", 2)


def test_hasattr_and_getattr_work_as_on_any_object():
    """An unknown name is an AttributeError too, so that hasattr is False."""
    house = House()

    assert hasattr(house.walls, "paint")
    assert not hasattr(house, "colour")
    assert getattr(house, "colour", "nothing") == "nothing"


@pytest.mark.parametrize("value", [1, None, {}, Paint()])
def test_a_category_cannot_be_assigned_to(value):
    """Only attributes have values."""
    house = House()

    with pytest.raises(ConfigError) as caught:
        house.walls.paint = value
    assert str(caught.value) == ("walls.paint is a category and cannot be assigned to.")
    with pytest.raises(ConfigError, match=r"^walls is a category and cannot be assign"):
        house.walls = value


def test_nothing_can_be_deleted():
    """A tree has all its attributes, always."""
    with pytest.raises(ConfigError, match=r"walls\.options cannot be deleted"):
        del House().walls.options


def test_a_deprecated_attribute_warns_when_it_is_set(caplog):
    """The log says which and what to use instead; reading it says nothing."""
    house = House()
    _ = house.walls.paint.old_colour
    assert caplog.messages == []
    house.walls.paint.old_colour = True

    assert caplog.messages == [
        "walls.paint.old_colour has been deprecated: use paint.colour instead."
    ]
    assert caplog.records[0].levelname == "WARNING"
    assert house.walls.paint.old_colour is True


def test_metadata_tells_all_of_an_attribute():
    """Name, type, default and deprecation, for a path from wherever it starts."""
    house = House()
    rooms = house.get_attribute_metadata("rooms")
    old = house.walls.get_attribute_metadata("paint.old_colour")

    assert (rooms.name, rooms.default) == ("rooms", [])
    assert rooms.types == (int, list[int], tuple[int, ...])
    assert (rooms.deprecated, rooms.deprecated_msg) == (False, None)
    assert (old.name, old.type) == ("walls.paint.old_colour", "bool")
    assert rooms.type == "typing.Union[int, typing.List[int], typing.Tuple[int, ...]]"
    assert rooms.__doc__ == "How many there are, or their sizes."
    assert (old.types, old.default) == ((bool,), False)
    assert old.deprecated
    assert old.deprecated_msg == "use paint.colour instead."
    assert house.get_attribute_metadata("walls.options").actual_type is dict


def test_metadata_checks_and_warns(caplog):
    """check_type and warn_if_deprecated do what assigning does, without assigning."""
    house = House()
    house.get_attribute_metadata("name").warn_if_deprecated()
    assert caplog.messages == []
    house.get_attribute_metadata("walls.paint.old_colour").warn_if_deprecated()

    assert len(caplog.messages) == 1
    assert house.get_attribute_metadata("name").check_type("Abbey") is True
    with pytest.raises(TypeError, match="Trying to set name to 3, but it must be of"):
        house.get_attribute_metadata("name").check_type(3)


def test_metadata_gives_its_own_copy_of_the_default():
    """Filling it changes no tree that is made later."""
    House().get_attribute_metadata("rooms").default.append(9)

    assert House().rooms == []


@pytest.mark.parametrize("name", ["walls", "walls.paint"])
def test_a_category_has_metadata(name):
    """Without a type or a default."""
    metadata = House().get_attribute_metadata(name)

    assert (metadata.name, metadata.type, metadata.default) == (name, None, None)


@pytest.mark.parametrize("name", ["rooms.x", "nothing", "", "walls.paint.x"])
def test_an_unknown_name_has_no_metadata(name):
    """A path ends at an attribute; the error has all of it, and the part that is wrong."""
    text = f"^Could not get attribute metadata for '{name}': '.*' is not a valid attrib"
    with pytest.raises(ValueError, match=text):
        House().get_attribute_metadata(name)


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


def test_equality_looks_at_all_values():
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
            "Trying to set open to 1, but it must be of type bool",
        ),
        ({"walls.paint.colour": "GREEN"}, TypeError, "colour to GREEN, but it must be"),
        ({"walls.paint.colour": True}, TypeError, "colour to True, but it must be"),
        ({"walls": 3}, TypeError, "walls is a category and must be given as a dict"),
        ([], TypeError, "^must be given as a dict, got"),
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
def test_what_is_no_json_is_refused(text):
    """As a ValueError, which json's own error is."""
    with pytest.raises(ValueError, match="Expecting"):
        House.from_json(text)


def test_what_cannot_be_json_is_refused():
    """An object among options is named, not written as something else."""
    house = House()
    house.walls.options["when"] = object()

    with pytest.raises(TypeError, match="of type object cannot be JSON"):
        house.to_json()


def test_a_round_trip_warns_of_no_deprecated_attribute_that_nobody_set(caplog):
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
