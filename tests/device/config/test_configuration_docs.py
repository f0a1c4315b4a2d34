"""docs/configuration.md says what is there: every attribute, every flag, the line."""

import dataclasses
import re

import pytest
from helpers import ROOT

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.no_effect import ATTRIBUTES, FLAGS
from ipufeed.device.flags.flags import Flags
from ipufeed.device.system.virtual_device import virtual_devices

TEXT = (ROOT / "docs" / "configuration.md").read_text()


def rows(title: str) -> list[list[str]]:
    """The cells of the table in a section."""
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_attribute_is_described_once_as_acting_or_warning():
    """By its full name, and no other name is."""
    table = rows("What the attributes do")
    described = [name for row in table for name in re.findall(r"`([^`]+)`", row[0])]

    assert sorted(described) == sorted(
        meta.name for meta, _ in IPUConfig().attributes()
    )
    assert {row[1] for row in table} == {"acts", "warns"}
    warns = [row for row in table if row[1] == "warns"]
    assert all(row[2] for row in warns)  # why
    assert {name for row in warns for name in re.findall(r"`([^`]+)`", row[0])} == {
        *ATTRIBUTES
    }


def test_the_flags_that_warn_are_described_so():
    """And no others."""
    warns = {row[0] for row in rows("TF_POPLAR_FLAGS") if row[3].startswith("warns")}

    assert warns == {f"`--{name}`" for name in FLAGS}


def test_every_flag_is_described_with_its_default_and_whether_it_is_hashed():
    """As flags.py has it."""
    described = {row[0]: row[1:3] for row in rows("TF_POPLAR_FLAGS")}

    assert described == {
        f"`--{field.name}`": [
            str(field.default).lower() or '""',
            "yes" if field.metadata["in_hash"] else "",
        ]
        for field in dataclasses.fields(Flags)
    }


def test_the_line_of_an_attached_device_is_the_one_that_is_logged():
    """With a device of four IPUs."""
    config = IPUConfig.from_dict({"auto_select_ipus": 4})
    (device,) = virtual_devices(config, Flags())

    assert f"\n    {device.attach_line()}\n" in TEXT


# What `device` is made of, for each attribute that is documented to act on it.
ACTING = {
    "auto_select_ipus": {"auto_select_ipus": 2},
    "select_ipus": {"select_ipus": 3},
    "selection_order": {"selection_order": "HOOF"},
    "device_connection.version": {"device_connection.version": "ipu1"},
    "io_tiles.num_io_tiles": {"io_tiles.num_io_tiles": 4},
    "ipu_model.version": {"ipu_model.version": "ipu1"},
    "ipu_model.tiles_per_ipu": {"ipu_model.tiles_per_ipu": 3},
}

# What acts on something else: test_system.py, and test_several_processes.py,
# test_offloading.py and test_pipeline_data.py (recomputation) of tests/parallel, and the
# reports of tests/executable.
ACTING_ELSEWHERE = {
    "allow_recompute",
    "compilation_poplar_options",
    "device_connection.enable_remote_buffers",
    "device_connection.type",
    "experimental.multi_replica_distribution.process_count",
    "experimental.multi_replica_distribution.process_index",
    "ipu_model.compile_ipu_code",
    "serialization_output_folder",  # test_executable_processes.py
}


@pytest.mark.parametrize("name", ACTING)
def test_what_is_documented_to_act_changes_the_devices(name):
    """So the table is not a wish; the connection type is tested with the system."""
    flags = Flags(use_ipu_model=name.startswith("ipu_model"))
    changed = IPUConfig.from_dict(ACTING[name])

    assert virtual_devices(changed, flags) != virtual_devices(IPUConfig(), flags)


def test_the_acting_attributes_are_the_tested_ones():
    """Here, or with what they act on."""
    table = rows("What the attributes do")
    acting = [name for row in table if row[1] == "acts" for name in row[0].split(", ")]

    assert {name.strip("`") for name in acting} == {*ACTING, *ACTING_ELSEWHERE}
