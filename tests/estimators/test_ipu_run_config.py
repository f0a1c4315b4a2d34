"""IPURunConfig and RunConfig: their defaults, and what they refuse."""

import pathlib

import pytest
from tensorflow.python.ipu.config import IPUConfig
from tensorflow.python.ipu.ipu_estimator import IPUEstimator
from tensorflow.python.ipu.ipu_run_config import IPURunConfig, RunConfig
from tensorflow.python.ipu.utils import auto_select_ipus, create_ipu_config

from ipufeed.errors import RefusedError


def of(ipus):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    return config


def test_defaults_are_those_of_the_original():
    assert IPURunConfig() == (1, None, 1, 1, 0, None)
    assert RunConfig().ipu_run_config == IPURunConfig()
    assert RunConfig().model_dir is None
    assert RunConfig().save_checkpoints_secs == 600
    assert RunConfig(save_checkpoints_steps=5).save_checkpoints_secs is None


def test_options_have_the_ipus_of_all_replicas():
    made = IPURunConfig(4, of(4), num_replicas=2, num_shards=2)

    assert made.ipu_options.auto_select_ipus == 4
    assert IPURunConfig(ipu_options=of([1, 2]), ordinal=1, num_shards=2).ordinal == 1
    older = auto_select_ipus(create_ipu_config(), 2)
    assert IPURunConfig(ipu_options=older, num_replicas=2).num_replicas == 2


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"iterations_per_loop": 0},
            ValueError,
            "`iterations_per_loop` must be at least 1",
        ),
        ({"num_shards": 1.5}, TypeError, "`num_shards` must be an int, got float"),
        ({"ordinal": -1}, ValueError, "`ordinal` must be at least 0, got -1"),
        (
            {"num_replicas": 2},
            ValueError,
            "more than one device, but `ipu_options` is None",
        ),
        ({"ipu_options": 3}, TypeError, "`ipu_options` must be an IPUConfig instance"),
        (
            {"ipu_options": of(4), "num_replicas": 2},
            ValueError,
            r"configures 4 IPUs .* num_replicas \(2\) times num_shards \(1\) is 2: "
            "set its `auto_select_ipus` to 2, or",
        ),
        (
            {"ipu_options": of(1), "ordinal": 1},
            ValueError,
            "`ordinal` must be less than 1, the devices .*, got 1: `auto_select_ipus`",
        ),
        ({"iterations": 1}, TypeError, "no argument iterations; it has iterations_per"),
        ({"train_distribute": 1}, TypeError, "train_distribute; it has .*num_replicas"),
        (
            {"prefetch_depth": -1},
            ValueError,
            "prefetch_depth must be greater than zero",
        ),
        ({"autosharding": "x"}, TypeError, "autosharding must be a bool, got str 'x'"),
        ({"compile_summary": 1}, TypeError, "compile_summary must be a bool, got int"),
    ],
)
def test_wrong_settings_of_the_ipu_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        IPURunConfig(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"ipu_run_config": 1}, TypeError, "must be an `IPURunConfig` instance"),
        ({"steps": 1}, TypeError, "no argument steps; it has model_dir"),
        (
            {"train_distribute": object()},
            RefusedError,
            "train_distribute.*num_replicas",
        ),
        (
            {"save_checkpoints_steps": 1, "save_checkpoints_secs": 1},
            ValueError,
            "Can not provide both",
        ),
        ({"keep_checkpoint_max": -1}, ValueError, "`keep_checkpoint_max` must be at"),
        ({"log_step_count_steps": 0}, ValueError, "_steps` must be at least 1 or None"),
        ({"log_step_count_steps": "a"}, TypeError, "`log_step_count_steps` must be an"),
        ({"save_checkpoints_secs": "a"}, TypeError, "must be a number, got str"),
        ({"model_dir": 3}, TypeError, "`model_dir` must be a path or None, got int 3"),
        ({"tf_random_seed": 1.5}, TypeError, "`tf_random_seed` must be an int or None"),
        (
            {"session_config": 1},
            TypeError,
            "must be a tf.compat.v1.ConfigProto or None",
        ),
    ],
)
def test_wrong_settings_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        RunConfig(**arguments)


@pytest.mark.parametrize(
    "path", ["a/b", b"a/b", pathlib.Path("a/b")], ids=["str", "bytes", "Path"]
)
def test_a_folder_is_a_path_of_any_type(path):
    """Its text is that of the path."""
    assert RunConfig(model_dir=path).model_dir == "a/b"
    with pytest.raises(
        TypeError, match=r"`model_dir` must be a path or None, got list"
    ):
        IPUEstimator(lambda features, labels, mode: None, model_dir=[])


def test_settings_of_a_distribution_are_none():
    """For programs that ask for them."""
    config = RunConfig()
    assert config.train_distribute is config.eval_distribute is None


def test_settings_are_replaced_in_a_copy():
    first = RunConfig(IPURunConfig(3), model_dir="a", save_checkpoints_steps=2)
    second = first.replace(model_dir="b")

    assert (first.model_dir, second.model_dir) == ("a", "b")
    assert second.ipu_run_config.iterations_per_loop == 3
    assert second.save_checkpoints_steps == 2
    with pytest.raises(AttributeError, match="RunConfig has no attribute 'other'"):
        _ = first.other


def test_options_of_older_releases_warn(caplog):
    IPURunConfig(compile_summary=True, autosharding=False)

    assert "`IPURunConfig(compile_summary=)` has no effect" in caplog.text
