"""IPUConfig against the original: names, types, defaults, and what may not be."""

import re

import pytest

from ipufeed.device.config.config import (
    DeviceConnectionType,
    ExecutionProfileType,
    IPUConfig,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipufeed.errors import ConfigError

SELECTION = int | list[int] | tuple[int, ...]

# Every attribute: its type and its default. Written by hand, so that a change of the
# tree must be made here too.
ATTRIBUTES = {
    "allow_recompute": (bool, False),
    "auto_select_ipus": (SELECTION, []),
    "compilation_poplar_options": (dict, {}),
    "convolutions.poplar_options": (dict, {}),
    "device_connection.enable_remote_buffers": (bool, False),
    "device_connection.type": (DeviceConnectionType, DeviceConnectionType.ALWAYS),
    "device_connection.version": (str, ""),
    "experimental.always_rearrange_copies_on_the_host": (bool, False),
    "experimental.enable_prng_stability": (bool, False),
    "experimental.enable_remote_buffer_embedding": (bool, False),
    "experimental.multi_replica_distribution.process_count": (int, 0),
    "experimental.multi_replica_distribution.process_index": (int, 0),
    "floating_point_behaviour.div0": (bool, False),
    "floating_point_behaviour.esr": (
        StochasticRoundingBehaviour,
        StochasticRoundingBehaviour.OFF,
    ),
    "floating_point_behaviour.inv": (bool, False),
    "floating_point_behaviour.nanoo": (bool, False),
    "floating_point_behaviour.oflo": (bool, False),
    "floating_point_behaviour.set_all": (bool, False),
    "gcl_poplar_options": (dict, {}),
    "io_tiles.available_memory_proportion": (float, 0.9),
    "io_tiles.num_io_tiles": (int, 0),
    "io_tiles.place_ops_on_io_tiles": (bool, False),
    "ipu_model.compile_ipu_code": (bool, True),
    "ipu_model.tiles_per_ipu": (int, 0),
    "ipu_model.version": (str, "ipu2"),
    "matmuls.clear_pass_type": (bool, False),
    "matmuls.poplar_options": (dict, {}),
    "norms.experimental.distributed_batch_norm_replica_group_size": (int, 1),
    "norms.use_stable_statistics": (bool, False),
    "optimizations.cholesky_block_size": (int, 0),
    "optimizations.combine_embedding_lookups": (bool, False),
    "optimizations.combine_matmuls": (bool, False),
    "optimizations.enable_dynamic_slice_replacement": (bool, True),
    "optimizations.enable_fast_math": (bool, False),
    "optimizations.enable_gather_simplifier": (bool, True),
    "optimizations.enable_graph_outlining": (bool, True),
    "optimizations.math.dot_strength": (bool, True),
    "optimizations.math.fast": (bool, False),
    "optimizations.maximum_all_gather_buffer_size": (int, 0),
    "optimizations.maximum_cross_replica_sum_buffer_size": (int, 0),
    "optimizations.maximum_inter_ipu_copies_buffer_size": (int, 0),
    "optimizations.maximum_reduce_many_buffer_size": (int, 0),
    "optimizations.maximum_reduce_scatter_buffer_size": (int, 0),
    "optimizations.maximum_send_recv_cluster_size": (int, 0),
    "optimizations.merge_infeed_io_copies": (bool, True),
    "optimizations.merge_remote_buffers": (
        MergeRemoteBuffersBehaviour,
        MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
    ),
    "optimizations.minimum_remote_tensor_size": (int, 128),
    "optimizations.prefetch_data_streams": (bool, True),
    "optimizations.triangular_solve_expander_block_size": (int, 0),
    "pooling.poplar_options": (dict, {}),
    "scheduling.algorithm": (SchedulingAlgorithm, SchedulingAlgorithm.CHOOSE_BEST),
    "scheduling.maximum_scheduler_lookahead_depth": (int, 5),
    "scheduling.maximum_scheduler_search_space_size": (int, 64),
    "select_ipus": (SELECTION, []),
    "selection_order": (SelectionOrder, SelectionOrder.AUTO),
    "serialization_output_folder": (str, ""),
    "slices.poplar_options": (dict, {}),
}


def with_values(**values):
    """A config with attributes given by name, `__` for the dots."""
    return IPUConfig.from_dict(
        {name.replace("__", "."): value for name, value in values.items()}
    )


def test_the_tree_has_exactly_these_attributes():
    """Types and defaults, as the original's."""
    found = {
        meta.name: (meta.actual_type, meta.default)
        for meta, _ in IPUConfig().attributes()
    }

    assert found == ATTRIBUTES


def test_a_fresh_config_has_its_defaults_and_is_valid():
    """Nothing has to be set."""
    config = IPUConfig()
    config.validate()

    for meta, value in config.attributes():
        assert value == meta.default, meta.name


@pytest.mark.parametrize(
    ("category", "wrong", "likely"),
    [
        ("matmuls", "poplar_option", "matmuls.poplar_options"),
        ("slices", "poplar_option", "slices.poplar_options"),
        ("ipu_model", "versoin", "ipu_model.version"),
        ("optimizations", "fast", "optimizations.math.fast"),
    ],
)
def test_a_like_name_in_the_same_category_is_the_likelier(category, wrong, likely):
    """Several categories have attributes of the same name."""
    with pytest.raises(ValueError, match=f"Did you mean '{re.escape(likely)}'"):
        setattr(getattr(IPUConfig(), category), wrong, 1)


def test_the_only_deprecated_attribute_is_the_old_fast_math(caplog):
    """It warns and names its successor."""
    config = IPUConfig()
    deprecated = [meta.name for meta, _ in config.attributes() if meta.deprecated]
    config.optimizations.enable_fast_math = True

    assert deprecated == ["optimizations.enable_fast_math"]
    assert "use optimizations.math.fast instead" in caplog.text


@pytest.mark.parametrize(
    ("enumeration", "names"),
    [
        (SelectionOrder, ["AUTO", "ZIGZAG", "SNAKE", "HOOF"]),
        (DeviceConnectionType, ["ALWAYS", "ON_DEMAND", "PRE_COMPILE", "NEVER"]),
        (
            SchedulingAlgorithm,
            ["CHOOSE_BEST", "CLUSTERING", "POST_ORDER", "LOOK_AHEAD", "SHORTEST_PATH"],
        ),
        (StochasticRoundingBehaviour, ["OFF", "ON", "REPLICA_IDENTICAL_ONLY"]),
        (MergeRemoteBuffersBehaviour, ["NO_MERGING", "MERGE", "IF_BENEFICIAL"]),
        (
            ExecutionProfileType,
            ["NO_PROFILE", "DEVICE_PROFILE", "IPU_PROFILE", "TILE_PROFILE"],
        ),
    ],
)
def test_enumerations_have_the_members_that_programs_name(enumeration, names):
    """In the original's order, numbered from 0."""
    assert [(each.name, each.value) for each in enumeration] == [
        (name, number) for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("auto", [1, [1], (1, 2)])
@pytest.mark.parametrize("selected", [0, [0], (3,)])
def test_ipus_are_selected_in_one_way(auto, selected):
    """Counts and IDs exclude each other; the ID 0 counts as a selection."""
    config = with_values(auto_select_ipus=auto, select_ipus=selected)

    with pytest.raises(ConfigError) as caught:
        config.validate()

    assert str(caught.value) == (
        "Only one of `auto_select_ipus` and `select_ipus` can be set."
    )


def test_no_hardware_id_is_selected_twice():
    """Two devices cannot be one group of IPUs."""
    with pytest.raises(
        ValueError, match=r"^All MultiIPU indices in `select_ipus` must be unique.$"
    ):
        with_values(select_ipus=[3, 1, 3]).validate()


@pytest.mark.parametrize("selected", [0, [1, 2]])
def test_the_ipu_model_has_no_hardware_ids(selected):
    """With it, only numbers of IPUs can be given."""
    config = with_values(select_ipus=selected)
    config.validate(use_ipu_model=False)

    with pytest.raises(ConfigError) as caught:
        config.validate(use_ipu_model=True)

    assert str(caught.value) == (
        "When using the IPUModel, the devices to attach to can only be specified with "
        "`auto_select_ipus`."
    )


@pytest.mark.parametrize("kind", ["NEVER", "PRE_COMPILE"])
def test_compiling_without_hardware_needs_a_version(kind):
    """The user has to set what is compiled for."""
    config = with_values(device_connection__type=kind)

    with pytest.raises(ValueError, match=r"device_connection.version") as caught:
        config.validate()

    assert str(caught.value) == (
        "device_connection.version must be set when device_connection.type is "
        "DeviceConnectionType.NEVER or DeviceConnectionType.PRE_COMPILE"
    )
    config.device_connection.version = "ipu21"
    config.validate()


def test_the_ipu_model_needs_a_version():
    """An empty one is refused with the Model, and only then."""
    config = with_values(ipu_model__version="")
    config.validate()

    with pytest.raises(ValueError, match=r"^ipu_model.version must be set when using"):
        config.validate(use_ipu_model=True)


@pytest.mark.parametrize("category", ["device_connection", "ipu_model"])
def test_versions_are_the_known_ones(category):
    """The error lists them."""
    config = with_values(**{f"{category}__version": "ipu9"})

    with pytest.raises(
        ValueError,
        match=rf"{category}\.version must be one of 'ipu1', 'ipu2', 'ipu21' or empty, "
        "got 'ipu9'",
    ):
        config.validate()


def test_operations_are_placed_on_io_tiles_that_there_are():
    """Not on none."""
    config = with_values(io_tiles__place_ops_on_io_tiles=True)

    with pytest.raises(ValueError, match="Cannot place ops on I/O tiles when"):
        config.validate()

    config.io_tiles.num_io_tiles = 32
    config.validate()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"auto_select_ipus": 0}, "Each number of IPUs .* at least 1, got 0"),
        ({"auto_select_ipus": -1}, "Each number of IPUs .* at least 1, got -1"),
        ({"auto_select_ipus": [1, -1]}, "Each number of IPUs .* at least 1, got -1"),
        ({"io_tiles.num_io_tiles": -2}, "io_tiles.num_io_tiles must be at least 0"),
        ({"io_tiles.num_io_tiles": 1472}, "must be less than the 1472 tiles of an IPU"),
        (
            {"io_tiles.num_io_tiles": 1216, "device_connection.version": "ipu1"},
            "must be less than the 1216 tiles of an IPU",
        ),
        ({"io_tiles.available_memory_proportion": 1.5}, r"in \[0, 1\], got 1.5"),
        ({"ipu_model.tiles_per_ipu": -1}, "ipu_model.tiles_per_ipu must be at least 0"),
        (
            {"optimizations.minimum_remote_tensor_size": -1},
            "optimizations.minimum_remote_tensor_size must be at least 0, got -1",
        ),
        (
            {"norms.experimental.distributed_batch_norm_replica_group_size": 0},
            "replica_group_size must be at least 1, got 0",
        ),
        (
            {
                "experimental.multi_replica_distribution.process_count": 2,
                "experimental.multi_replica_distribution.process_index": 2,
            },
            r"process_index must be in the range \[0, .*process_count\), got 2 of 2",
        ),
        (
            {"experimental.multi_replica_distribution.process_count": 2**31},
            r"experimental.multi_replica_distribution.process_count must be in "
            r"\[0, 2147483647\], got 2147483648",
        ),
        (
            {"ipu_model.tiles_per_ipu": 2**70},
            rf"ipu_model.tiles_per_ipu must be in \[0, 65536\], got {2**70}",
        ),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(values, message):
    """The error names the attribute, the range and the number."""
    with pytest.raises(ValueError, match=message):
        IPUConfig.from_dict(values).validate()


def test_a_list_that_was_spoilt_later_is_found():
    """Appending is not seen when it is done, but before it is used."""
    config = IPUConfig()
    config.auto_select_ipus.append("two")

    with pytest.raises(TypeError, match="Trying to set auto_select_ipus to"):
        config.validate()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({1: "2"}, "The names in `convolutions.poplar_options` must be str, got int 1"),
        (
            {"a": None},
            "The value of 'a' in `convolutions.poplar_options` must be a str",
        ),
        ({"a": ["1"]}, "a str, number or bool, got list"),
    ],
)
def test_options_of_a_library_are_texts(options, message):
    config = IPUConfig()
    config.convolutions.poplar_options = options
    with pytest.raises(TypeError, match=message):
        config.validate()
    config.convolutions.poplar_options = {"a": "1", "b": 2, "c": 0.5, "d": True}
    config.validate()


def test_stochastic_rounding_takes_the_bool_that_it_once_was():
    """Programs of older releases set it to True."""
    config = IPUConfig()
    config.floating_point_behaviour.esr = True

    assert config.floating_point_behaviour.esr is StochasticRoundingBehaviour.ON


def test_a_process_index_is_checked_against_a_process_count():
    """Without a count, which means one process, any index is accepted."""
    config = IPUConfig()
    distribution = config.experimental.multi_replica_distribution
    distribution.process_index = 2
    config.validate()
    distribution.process_count = 2

    name = r"experimental\.multi_replica_distribution\.process"
    with pytest.raises(ValueError, match=rf"^{name}_index must be .* got 2 of 2\.$"):
        config.validate()
    distribution.process_count = 3
    config.validate()


@pytest.mark.parametrize(
    ("values", "use_ipu_model", "message"),
    [
        (
            {
                "io_tiles.num_io_tiles": 4,
                "norms.experimental.distributed_batch_norm_replica_group_size": 2,
                "device_connection.version": "ipu9",
            },
            False,
            "distributed_batch_norm_replica_group_size is not supported with I/O tiles.",
        ),
        (
            {"experimental.multi_replica_distribution.process_count": 2},
            True,
            "Multi-replica distribution is not supported on the IPU model.",
        ),
        (
            {"select_ipus": [1, 1], "auto_select_ipus": []},
            True,
            "must be unique",
        ),
    ],
)
def test_what_cannot_be_together_is_refused_in_the_original_s_order(
    values, use_ipu_model, message
):
    """The first that is wrong is named."""
    with pytest.raises(Exception, match=message):
        IPUConfig.from_dict(values).validate(use_ipu_model)
