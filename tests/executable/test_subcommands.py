"""The table of subcommands, and units."""

import pytest

from ipufeed.executable import __main__ as command
from ipufeed.executable.commands import common


def test_a_subcommand_needs_a_line_in_the_table():
    """Each name in the table is a module that takes arguments and runs."""
    for name in command.COMMANDS:
        module = command._module_of(name)
        assert callable(module.run)
        assert callable(module.add_arguments)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90min", 5400), ("30d", 2592000), ("1.5h", 5400)]
)
def test_times_are_understood(text, seconds):
    """As a user writes them."""
    assert common.duration(text) == seconds
