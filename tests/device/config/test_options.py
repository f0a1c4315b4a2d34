"""The older style: functions that take options and return them."""

import pytest
from option_differences import differences

from ipufeed import graphcore_names
from ipufeed.device.config import options
from ipufeed.device.config.config import (
    ExecutionProfileType,
    IPUConfig,
    SchedulingAlgorithm,
    SelectionOrder,
)
from ipufeed.device.config.options_create import create_ipu_config
from ipufeed.device.config.verification import VerificationOptions
from ipufeed.errors import ConfigError

# Where the older style's defaults differ from IPUConfig's.
OLD_DEFAULTS = {
    "ipu_model.version": "ipu1",
    "optimizations.merge_infeed_io_copies": False,
    "optimizations.enable_gather_simplifier": False,
}


def test_fresh_options_are_a_config_with_the_older_defaults():
    """Everything else is IPUConfig's; profiling and reports are recorded."""
    opts = create_ipu_config()

    assert opts.config == IPUConfig.from_dict(OLD_DEFAULTS)
    assert opts.recorded == {
        "profiling": False,
        "enable_ipu_events": False,
        "use_poplar_text_report": False,
        "use_poplar_cbor_report": False,
        "profile_execution": ExecutionProfileType.NO_PROFILE,
        "enable_poplar_serialized_graph": False,
        "report_every_nth_execution": 0,
        "max_report_size": 0x10000000,
        "report_directory": "",
        "disable_graph_convolution_caching": False,
        "retain_control_dependencies": False,
    }


def test_every_argument_reaches_the_config():
    """By the name that IPUConfig has for it."""
    opts = create_ipu_config(
        scheduler_selection="Clustering",
        always_rearrange_copies_on_the_host=True,
        merge_infeed_io_copies=True,
        disable_graph_outlining=True,
        max_cross_replica_sum_buffer_size=1,
        max_inter_ipu_copies_buffer_size=2,
        max_reduce_scatter_buffer_size=3,
        max_scheduler_lookahead_depth=6,
        max_scheduler_search_space_size=7,
        prefetch_data_streams=False,
        selection_order=SelectionOrder.SNAKE,
        enable_experimental_remote_buffer_embedding=True,
    )

    assert differences(opts) == {
        "scheduling.algorithm": SchedulingAlgorithm.CLUSTERING,
        "experimental.always_rearrange_copies_on_the_host": True,
        "optimizations.merge_infeed_io_copies": True,
        "optimizations.enable_graph_outlining": False,
        "optimizations.maximum_cross_replica_sum_buffer_size": 1,
        "optimizations.maximum_inter_ipu_copies_buffer_size": 2,
        "optimizations.maximum_reduce_scatter_buffer_size": 3,
        "scheduling.maximum_scheduler_lookahead_depth": 6,
        "scheduling.maximum_scheduler_search_space_size": 7,
        "optimizations.prefetch_data_streams": False,
        "selection_order": SelectionOrder.SNAKE,
        "experimental.enable_remote_buffer_embedding": True,
    }


def test_arguments_may_be_given_by_position():
    """The first are those of profiling, in the original's order."""
    opts = create_ipu_config(
        True, False, True, False, True, True, 5, 99, "/tmp/reports"
    )

    assert opts.recorded["profiling"] is True
    assert opts.recorded["use_poplar_text_report"] is True
    assert opts.recorded["profile_execution"] is ExecutionProfileType.DEVICE_PROFILE
    assert opts.recorded["report_every_nth_execution"] == 5
    assert opts.recorded["max_report_size"] == 99
    assert opts.recorded["report_directory"] == "/tmp/reports"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"profiling": True, "enable_ipu_events": True},
            "`profiling` and `enable_ipu_events` are mutually exclusive",
        ),
        (
            {"profile_execution": True},
            "`profiling` is required when `profile_execution` is set",
        ),
        (
            {"profiling": True, "profile_execution": "yes"},
            "`profile_execution` must be True, False, or an ExecutionProfileType",
        ),
        (
            {"profile_execution": []},
            r"`profile_execution` must be True, False, or an .* got \[\]",
        ),
    ],
)
def test_profiling_options_must_fit(arguments, message):
    """As the original says."""
    with pytest.raises(ConfigError, match=message):
        create_ipu_config(**arguments)


@pytest.mark.parametrize("profile", list(ExecutionProfileType))
def test_a_profile_type_is_kept(profile):
    """And False and None are none."""
    opts = create_ipu_config(profiling=True, profile_execution=profile)
    assert opts.recorded["profile_execution"] is profile

    off = create_ipu_config(profiling=True, profile_execution=False)
    assert off.recorded["profile_execution"] is ExecutionProfileType.NO_PROFILE


def test_an_unknown_scheduler_is_refused():
    """The error lists those there are."""
    with pytest.raises(
        ValueError, match=r"must be one of '', .*'ShortestPath', got 'X'"
    ):
        create_ipu_config(scheduler_selection="X")
    with pytest.raises(ValueError, match=r"must be one of '', .* got \['PostOrder'\]"):
        create_ipu_config(scheduler_selection=["PostOrder"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"profiling": 1},
        {"max_report_size": "big"},
        {"report_directory": 3},
        {"disable_graph_outlining": "no"},
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_by_name(arguments):
    """By the name that the caller used."""
    (name,) = arguments
    with pytest.raises(TypeError, match=f"{name}`? must be (of type|a bool)"):
        create_ipu_config(**arguments)


@pytest.mark.parametrize("name", ["max_report_size", "report_every_nth_execution"])
def test_a_negative_number_of_reports_is_refused(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 0, got -1"):
        create_ipu_config(profiling=True, **{name: -1})


def test_an_argument_of_a_wrong_type_is_refused_by_its_attribute():
    """Where it goes to one of IPUConfig's, that one checks."""
    with pytest.raises(TypeError, match="Trying to set selection_order to 1, but"):
        create_ipu_config(selection_order=1)


def test_every_function_returns_the_options_it_was_given():
    """So that `opts = f(opts)` and `f(opts)` both work."""
    required = {
        "auto_select_ipus": (1,),
        "select_ipus": ([1],),
        "set_io_tile_options": (32,),
        "set_experimental_multi_replica_distribution_options": (2, 1),
        "set_verification_options": (VerificationOptions(),),
    }
    homes = graphcore_names.MODULES["utils"]
    names = {name for name, home in homes.items() if home == options.__name__}
    defined = {
        name
        for name, value in vars(options).items()
        if name[0] != "_" and getattr(value, "__module__", "") == options.__name__
    }
    assert names == defined
    for name in sorted(names):
        opts = create_ipu_config()
        function = getattr(options, name)

        assert function(opts, *required.get(name, ())) is opts, name
        with pytest.raises(
            TypeError, match="`opts` must be the options that create_ipu"
        ):
            function(IPUConfig(), *required.get(name, ()))


@pytest.mark.parametrize("num_ipus", [2, [1, 2], (1, 2)])
def test_auto_select_ipus_gives_the_numbers(num_ipus):
    """An int, a list or a tuple."""
    opts = options.auto_select_ipus(create_ipu_config(), num_ipus)

    assert differences(opts) == {"auto_select_ipus": num_ipus}


@pytest.mark.parametrize("indices", [[3, 1], (24,), 0])
def test_select_ipus_gives_the_ids(clean_system, indices):
    """In their order."""
    opts = options.select_ipus(create_ipu_config(), indices)

    assert differences(opts) == {"select_ipus": indices}


@pytest.mark.parametrize("value", ["2", 2.0, None, True])
def test_a_selection_of_a_wrong_type_is_refused(clean_system, value):
    """With what it may be."""
    with pytest.raises(
        ConfigError, match="`num_ipus` must be an integer, list or tuple"
    ):
        options.auto_select_ipus(create_ipu_config(), value)
    with pytest.raises(
        ConfigError, match="`indices` must be an integer, list or tuple"
    ):
        options.select_ipus(create_ipu_config(), value)


@pytest.mark.parametrize("first", ["auto_select_ipus", "select_ipus"])
def test_ipus_are_selected_once(clean_system, first):
    """A second selection is an error, whichever way it is made."""
    opts = getattr(options, first)(create_ipu_config(), 0)

    with pytest.raises(ConfigError, match="IPU devices have already been configured"):
        options.auto_select_ipus(opts, 1)
    with pytest.raises(ConfigError, match="IPU devices have already been configured"):
        options.select_ipus(opts, [1])


def test_ids_are_unique(clean_system):
    """Two devices cannot be one group of IPUs."""
    with pytest.raises(
        ConfigError, match="All device indices in `indices` must be uniq"
    ):
        options.select_ipus(create_ipu_config(), [1, 1])


def test_ids_are_not_for_the_ipu_model(clean_system, monkeypatch):
    """With the original's words."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")

    with pytest.raises(
        ConfigError, match=r"^When using the IPUModel, the devices to att"
    ):
        options.select_ipus(create_ipu_config(), [1])
