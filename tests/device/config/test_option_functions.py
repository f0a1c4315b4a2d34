"""The functions of the older style: connections, options of libraries, comparison."""

import pytest
from option_differences import differences

from ipufeed.device.config import options
from ipufeed.device.config.config import (
    DeviceConnectionType,
    MergeRemoteBuffersBehaviour,
    StochasticRoundingBehaviour,
)
from ipufeed.device.config.options_create import create_ipu_config
from ipufeed.device.config.verification import KeyId, VerificationOptions
from ipufeed.errors import ConfigError


@pytest.mark.parametrize(
    ("number", "version"), [(1, "ipu1"), (2, "ipu2"), (21, "ipu21")]
)
def test_a_connection_has_a_type_a_version_and_remote_buffers(number, version):
    """The version is a number in this style."""
    opts = options.set_ipu_connection_type(
        create_ipu_config(),
        connection_type=DeviceConnectionType.PRE_COMPILE,
        ipu_version=number,
        enable_remote_buffers=True,
    )

    assert differences(opts) == {
        "device_connection.type": DeviceConnectionType.PRE_COMPILE,
        "device_connection.version": version,
        "device_connection.enable_remote_buffers": True,
    }


def test_a_connection_is_always_by_default():
    """And undoes what was set before."""
    opts = create_ipu_config()
    options.set_ipu_connection_type(opts, DeviceConnectionType.NEVER, 2, True)
    options.set_ipu_connection_type(opts)

    assert differences(opts) == {}


@pytest.mark.parametrize("name", ["NEVER", "PRE_COMPILE"])
def test_compiling_without_hardware_needs_a_version(name):
    """The message names the type; nothing is changed."""
    opts = create_ipu_config()

    with pytest.raises(
        ConfigError,
        match="`ipu_version` must be set when `connection_type` is set to "
        f"`DeviceConnectionType.{name}`",
    ):
        options.set_ipu_connection_type(opts, DeviceConnectionType[name])
    assert differences(opts) == {}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"connection_type": "NEVER"},
            TypeError,
            "`connection_type` must be of type Dev",
        ),
        ({"ipu_version": "ipu2"}, TypeError, "`ipu_version` must be of type int"),
        ({"ipu_version": 3}, ValueError, "`ipu_version` must be 1, 2 or 21, got 3"),
        (
            {"enable_remote_buffers": 1},
            TypeError,
            "enable_remote_buffers must be a bool, got int 1",
        ),
    ],
)
def test_a_bad_connection_is_refused(arguments, error, message):
    """By the name of the argument; nothing is changed."""
    opts = create_ipu_config()

    with pytest.raises(error, match=message):
        options.set_ipu_connection_type(opts, **arguments)
    assert differences(opts) == {}


@pytest.mark.parametrize(
    ("name", "arguments", "changes"),
    [
        (
            "set_ipu_model_options",
            {
                "compile_ipu_code": False,
                "tiles_per_ipu": 4,
                "ipu_model_version": "ipu2",
            },
            {
                "ipu_model.compile_ipu_code": False,
                "ipu_model.tiles_per_ipu": 4,
                "ipu_model.version": "ipu2",
            },
        ),
        ("set_ipu_model_options", {}, {}),
        (
            "set_serialization_options",
            {"output_folder": "/tmp/a"},
            {"serialization_output_folder": "/tmp/a"},
        ),
        (
            "set_optimization_options",
            {
                "combine_embedding_lookups": True,
                "combine_matmuls": True,
                "max_cross_replica_sum_buffer_size": 1,
                "max_reduce_scatter_buffer_size": 2,
                "max_inter_ipu_copies_buffer_size": 3,
                "max_send_recv_cluster_size": 4,
                "minimum_remote_tensor_size": 5,
                "merge_remote_buffers": MergeRemoteBuffersBehaviour.MERGE,
                "gather_simplifier": True,
                "triangular_solve_expander_block_size": 6,
                "cholesky_block_size": 7,
                "enable_fast_math": True,
            },
            {
                "optimizations.combine_embedding_lookups": True,
                "optimizations.combine_matmuls": True,
                "optimizations.maximum_cross_replica_sum_buffer_size": 1,
                "optimizations.maximum_reduce_scatter_buffer_size": 2,
                "optimizations.maximum_inter_ipu_copies_buffer_size": 3,
                "optimizations.maximum_send_recv_cluster_size": 4,
                "optimizations.minimum_remote_tensor_size": 5,
                "optimizations.merge_remote_buffers": MergeRemoteBuffersBehaviour.MERGE,
                "optimizations.enable_gather_simplifier": True,
                "optimizations.triangular_solve_expander_block_size": 6,
                "optimizations.cholesky_block_size": 7,
                "optimizations.math.fast": True,
            },
        ),
        ("set_optimization_options", {}, {}),
        (
            "set_norm_options",
            {"use_stable_statistics": True},
            {"norms.use_stable_statistics": True},
        ),
        (
            "set_compilation_options",
            {"compilation_options": {"debug.allowOutOfMemory": "true"}},
            {"compilation_poplar_options": {"debug.allowOutOfMemory": "true"}},
        ),
        (
            "set_convolution_options",
            {"convolution_options": {"a": "1"}},
            {"convolutions.poplar_options": {"a": "1"}},
        ),
        (
            "set_matmul_options",
            {"matmul_options": {"a": "1"}, "clear_pass_type": True},
            {"matmuls.poplar_options": {"a": "1"}, "matmuls.clear_pass_type": True},
        ),
        (
            "set_pooling_options",
            {"pooling_options": {"a": "1"}},
            {"pooling.poplar_options": {"a": "1"}},
        ),
        (
            "set_gcl_options",
            {"gcl_options": {"a": "1"}},
            {"gcl_poplar_options": {"a": "1"}},
        ),
        (
            "set_gcl_options",
            {"num_io_tiles": 32, "gcl_options": {"a": "1"}},
            {"gcl_poplar_options": {"a": "1"}, "io_tiles.num_io_tiles": 32},
        ),
        ("set_recomputation_options", {}, {"allow_recompute": True}),
        ("set_recomputation_options", {"allow_recompute": False}, {}),
        (
            "set_floating_point_behaviour_options",
            {},
            {
                "floating_point_behaviour.inv": True,
                "floating_point_behaviour.div0": True,
                "floating_point_behaviour.oflo": True,
                "floating_point_behaviour.esr": StochasticRoundingBehaviour.ON,
                "floating_point_behaviour.nanoo": True,
            },
        ),
        (
            "set_floating_point_behaviour_options",
            {"inv": False, "div0": False, "oflo": False, "esr": False},
            {"floating_point_behaviour.nanoo": True},
        ),
        (
            "set_io_tile_options",
            {
                "num_io_tiles": 32,
                "place_ops_on_io_tiles": True,
                "io_tile_available_memory_proportion": 0.5,
            },
            {
                "io_tiles.num_io_tiles": 32,
                "io_tiles.place_ops_on_io_tiles": True,
                "io_tiles.available_memory_proportion": 0.5,
            },
        ),
        (
            "set_experimental_multi_replica_distribution_options",
            {"process_count": 2, "process_index": 1},
            {
                "experimental.multi_replica_distribution.process_count": 2,
                "experimental.multi_replica_distribution.process_index": 1,
            },
        ),
    ],
)
def test_a_function_sets_what_it_names(name, arguments, changes):
    """And nothing else."""
    opts = getattr(options, name)(create_ipu_config(), **arguments)

    assert differences(opts) == changes


def test_options_of_collectives_are_in_either_place():
    """The second is that of later releases; I/O tiles are not set back by it."""
    opts = options.set_io_tile_options(create_ipu_config(), 32)
    options.set_gcl_options(opts, {"a": "1"})
    options.set_gcl_options(opts, 0, {"b": "2"})
    options.set_gcl_options(opts, None)

    assert opts.config.gcl_poplar_options == {"a": "1", "b": "2"}
    assert opts.config.io_tiles.num_io_tiles == 32
    with pytest.raises(TypeError, match="`gcl_options` must be a dictionary, got 'x'"):
        options.set_gcl_options(opts, "x")
    with pytest.raises(TypeError, match="`num_io_tiles` must be an int, got str 'x'"):
        options.set_gcl_options(opts, "x", {})


def test_options_of_libraries_add_up():
    """A second call adds to the first, and replaces options of the same name."""
    opts = create_ipu_config()
    options.set_compilation_options(opts, {"a": "1", "b": "2"})
    options.set_compilation_options(opts, {"b": "3"})
    options.set_compilation_options(opts)

    assert opts.config.compilation_poplar_options == {"a": "1", "b": "3"}
    with pytest.raises(TypeError, match="`compilation_options` must be a dictionary"):
        options.set_compilation_options(opts, [("a", "1")])


@pytest.mark.parametrize(
    "name", ["compilation", "convolution", "matmul", "pooling", "gcl", "report"]
)
def test_options_of_libraries_are_texts(name):
    """Or numbers and bools, which become texts; nothing is set if one is wrong."""
    opts = create_ipu_config()
    set_options = getattr(options, f"set_{name}_options")
    what = f"`{name}_options`"
    with pytest.raises(TypeError, match=f"names in {what} must be str, got int 1"):
        set_options(opts, {"a": "b", 1: "2"})
    for value in (None, [], object()):
        with pytest.raises(TypeError, match=f"'b' in {what} must be a str, number or"):
            set_options(opts, {"a": "b", "b": value})
    assert "'a': 'b'" not in repr(opts)
    set_options(opts, {"a": 1, "b": 0.5, "c": True, "d": "x"})
    assert "'a': 1, 'b': 0.5, 'c': True, 'd': 'x'" in repr(opts)


def test_what_a_config_has_no_name_for_is_recorded():
    """Reports and verified transfers."""
    opts = create_ipu_config()
    options.set_report_options(opts, {"a": "1"}, graph_options={"b": "2"})
    options.set_report_options(opts, {"c": "3"}, execution_options={"d": "4"})
    options.set_transfer_options(opts, use_verified_transfers=True)
    keys = VerificationOptions()
    keys.inputs.key = 1
    keys.infeeds["images"].key, keys.infeeds["images"].start_id = 3, 0
    options.set_verification_options(opts, keys)

    assert differences(opts) == {}
    assert opts.recorded["report_options"] == {"a": "1", "c": "3"}
    assert opts.recorded["graph_options"] == {"b": "2"}
    assert opts.recorded["execution_options"] == {"d": "4"}
    assert opts.recorded["use_verified_transfers"] is True
    assert opts.recorded["verification_options"] is keys
    assert keys.infeeds == {"images": KeyId(3, 0)}
    assert (keys.outputs, keys.checkpoint_in) == (KeyId(), KeyId(0, 0))
    with pytest.raises(TypeError, match="must be of type VerificationOptions, got 5"):
        options.set_verification_options(opts, 5)


def test_operations_are_placed_on_io_tiles_that_there_are():
    """Not on none."""
    with pytest.raises(
        ValueError, match="Cannot place ops on I/O tiles when num_io_til"
    ):
        options.set_io_tile_options(create_ipu_config(), 0, place_ops_on_io_tiles=True)


def test_options_are_compared_and_shown_by_what_is_in_them():
    """And are not keys, since they change."""
    opts = create_ipu_config()

    assert opts == create_ipu_config()
    assert opts != create_ipu_config(prefetch_data_streams=False)
    assert opts != create_ipu_config(report_directory="x")
    assert opts != "options"
    assert "report_directory=" not in repr(opts)
    assert "'report_directory': ''" in repr(opts)
    assert "optimizations.merge_infeed_io_copies = False" in repr(opts)
    with pytest.raises(TypeError, match="unhashable"):
        hash(opts)
