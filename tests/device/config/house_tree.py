"""A tree of options."""

from enum import Enum
from typing import Annotated, Any

from ipufeed.device.config.metadata import Deprecated
from ipufeed.device.config.tree import Category


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
