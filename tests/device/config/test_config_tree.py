"""What a tree of checked attributes promises, whatever stands in it."""

import json

import numpy as np
import pytest
from house_tree import Colour, House, Paint, Switch

from ipufeed.errors import ConfigAttributeError, ConfigError


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
        f"Trying to set {name} to {value}, but it must be of type {wanted}, "
        f"got {type(value).__name__} {value!r}"
    )
    assert house.to_dict() == before


def test_an_attribute_deep_in_the_tree_is_named_in_full():
    """So that one of several like-named attributes is found."""
    with pytest.raises(TypeError, match=r"Trying to set walls\.paint\.layers to two, "):
        House().walls.paint.layers = "two"
    with pytest.raises(TypeError, match=r"paint\.colour to 2, .* Colour, got int 2$"):
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


def test_a_bool_becomes_a_member_where_the_enumeration_defines_it():
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
    full = ".".join(filter(None, [path, wrong]))
    message = (
        f"'{full}' is not a valid attribute of this config. Did you mean '{likely}'?"
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
    with pytest.raises(ValueError, match=r"^'walls\.paint\.zzzzqqq' is not a valid"):
        House().walls.paint.zzzzqqq = 1


def test_a_path_is_not_a_name():
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


def test_metadata_describes_an_attribute():
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
    with pytest.raises(TypeError, match=r"`attr` must be a str, .* got int 3"):
        house.get_attribute_metadata(3)


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
