"""IPURunConfig and RunConfig: how an estimator runs its loops, and where it saves.

    RunConfig(
        ipu_run_config=IPURunConfig(iterations_per_loop=100, ipu_options=config),
        model_dir="model",
    )

Source: Graphcore's classes of these names; the other settings are TensorFlow's.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import tensorflow as tf

from ipufeed.checks import as_count, as_int, as_number, check_flags
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.flags.flags import read_flags
from ipufeed.device.system import system
from ipufeed.device.system.virtual_device import virtual_devices
from ipufeed.errors import RefusedError
from ipufeed.estimators.checks import as_folder
from ipufeed.no_effect import no_effect
from ipufeed.queues.arguments import check_prefetch_depth


class _Fields(NamedTuple):
    iterations_per_loop: int
    ipu_options: IPUConfig | None
    num_replicas: int
    num_shards: int
    ordinal: int
    prefetch_depth: int | None


class IPURunConfig(_Fields):
    """How an estimator runs its loops on an IPU.

    Args:
        iterations_per_loop: Mini-batches of a run of the program, of each replica.
            Default: 1.
        ipu_options: The IPUConfig with which the system is configured before a session
            begins; the options of create_ipu_config, too. Default: None, which leaves the
            system as it is.
        num_replicas: The replicas of the program. Default: 1.
        num_shards: The IPUs of a replica. Default: 1.
        ordinal: The device. Default: 0.
        prefetch_depth: The depth of the infeed. Default: None, the infeed's own.
        compile_summary: No effect, with a warning; of older releases.
        autosharding: Likewise.

    Raises:
        TypeError: `ipu_options` is of another type, or a number is.
        ValueError: A number is out of range; several IPUs and no `ipu_options`; or these
            have no such device, or another number of IPUs.
    """

    def __new__(
        cls,
        iterations_per_loop: int = 1,
        ipu_options: IPUConfig | None = None,
        num_replicas: int = 1,
        num_shards: int = 1,
        ordinal: int = 0,
        prefetch_depth: int | None = None,
        **older: Any,
    ) -> IPURunConfig:
        """Checks the arguments; see the class."""
        for name in ("compile_summary", "autosharding"):
            wanted = older.pop(name, False)
            check_flags(**{name: wanted})
            if wanted:
                no_effect(
                    f"IPURunConfig({name}=)", "programs are not summarised or cut"
                )
        if older:
            raise TypeError(
                f"IPURunConfig has no argument {', '.join(older)}; it has "
                f"{', '.join(cls._fields)}."
            )
        counts = {
            "iterations_per_loop": (iterations_per_loop, 1),
            "num_replicas": (num_replicas, 1),
            "num_shards": (num_shards, 1),
            "ordinal": (ordinal, 0),
        }
        for name, (value, least) in counts.items():
            as_count(name, value, least)
        check_prefetch_depth(prefetch_depth)
        needed = num_replicas * num_shards
        if ipu_options is not None:
            _check_options(ipu_options, needed, num_replicas, num_shards, ordinal)
        elif needed > 1:
            raise ValueError(
                "IPU configuration requires more than one device, but `ipu_options` is "
                "None"
            )
        return super().__new__(
            cls,
            iterations_per_loop,
            ipu_options,
            num_replicas,
            num_shards,
            ordinal,
            prefetch_depth,
        )


def _check_options(
    options: IPUConfig, needed: int, num_replicas: int, num_shards: int, ordinal: int
) -> None:
    try:
        config: IPUConfig = system._as_config(options)
    except TypeError:
        raise TypeError(
            "`ipu_options` must be an IPUConfig instance, got "
            f"{type(options).__name__}."
        ) from None
    devices = virtual_devices(config, read_flags())
    if ordinal >= len(devices):
        raise ValueError(
            f"`ordinal` must be less than {len(devices)}, the devices that `ipu_options` "
            f"configures, got {ordinal}: `auto_select_ipus` has one number for each."
        )
    found = devices[ordinal].num_ipus
    if found != needed:
        raise ValueError(
            f"`ipu_options` configures {found} IPUs for the device {ordinal}, and "
            f"num_replicas ({num_replicas}) times num_shards ({num_shards}) is {needed}: "
            f"set its `auto_select_ipus` to {needed}, or the two to give {found}."
        )


# TensorFlow's settings that are used here, with its defaults.
_SETTINGS: dict[str, Any] = {
    "model_dir": None,
    "tf_random_seed": None,
    "save_summary_steps": 100,
    "save_checkpoints_steps": None,
    "save_checkpoints_secs": None,
    "session_config": None,
    "keep_checkpoint_max": 5,
    "keep_checkpoint_every_n_hours": 10000,
    "log_step_count_steps": 100,
}
# Those that say how TensorFlow's estimators are distributed.
_DISTRIBUTED = (
    *("train_distribute", "eval_distribute", "experimental_distribute", "device_fn"),
    *(
        "protocol",
        "session_creation_timeout_secs",
        "experimental_max_worker_delay_secs",
    ),
)


# The least of settings that are numbers; those in _WHOLE are integers.
_LEAST: dict[str, float] = {
    "save_summary_steps": 0,
    "save_checkpoints_steps": 0,
    "save_checkpoints_secs": 0,
    "keep_checkpoint_max": 0,
    "keep_checkpoint_every_n_hours": 0,
    "log_step_count_steps": 1,
}
_WHOLE = {*_LEAST} - {"save_checkpoints_secs", "keep_checkpoint_every_n_hours"}


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings.

    Raises:
        TypeError, ValueError: One is of another type, or too small.
    """
    for name, least in _LEAST.items():
        value = settings[name]
        if value is None:
            continue
        whole = name in _WHOLE
        if (
            as_int(name, value, " or None") if whole else as_number(name, value)
        ) < least:
            raise ValueError(f"`{name}` must be at least {least} or None, got {value}.")
    if settings["tf_random_seed"] is not None:
        as_int("tf_random_seed", settings["tf_random_seed"], " or None")
    session = settings["session_config"]
    if session is not None and not isinstance(session, tf.compat.v1.ConfigProto):
        raise TypeError(
            "`session_config` must be a tf.compat.v1.ConfigProto or None, got "
            f"{type(session).__name__}."
        )
    return settings | {"model_dir": as_folder(settings["model_dir"])}


class RunConfig:
    """How an estimator runs, and where it saves.

    Args:
        ipu_run_config: An IPURunConfig. Default: None, which is IPURunConfig().
        master: No effect, with a warning: sessions are of this process. Default: None.
        **kwargs: Of TensorFlow's RunConfig: `model_dir` (None, a temporary folder),
            `tf_random_seed`, `save_summary_steps` (100), `save_checkpoints_steps` or
            `save_checkpoints_secs` (600; None for both: nothing is saved, and evaluation
            and prediction have the initial values),
            `session_config`, `keep_checkpoint_max` (5), `keep_checkpoint_every_n_hours`
            (10000) and `log_step_count_steps` (100; steps between log lines).

    Raises:
        TypeError: `ipu_run_config` or a setting is of another type, or an argument
            is unknown.
        ValueError: Both intervals of checkpoints are given, or a number is too small.
        RefusedError: An argument says how TensorFlow distributes an estimator.
    """

    def __init__(
        self,
        ipu_run_config: IPURunConfig | None = None,
        master: str | None = None,
        **kwargs: Any,
    ) -> None:
        if ipu_run_config is None:
            ipu_run_config = IPURunConfig()
        if not isinstance(ipu_run_config, IPURunConfig):
            raise TypeError(
                "`ipu_run_config` must be an `IPURunConfig` instance, got "
                f"{type(ipu_run_config).__name__}."
            )
        if master:
            no_effect("RunConfig(master=)", "sessions are of this process")
        self._ipu_run_config = ipu_run_config
        self._given = dict(kwargs)
        for name in _DISTRIBUTED:
            if kwargs.pop(name, None) is not None:
                raise RefusedError(
                    f"RunConfig({name}=) is not supported: an estimator runs in one "
                    "process. Use num_replicas of IPURunConfig, or a PopDistStrategy "
                    "with a tf.function in several processes."
                )
        unknown = kwargs.keys() - _SETTINGS.keys()
        if unknown:
            raise TypeError(
                f"RunConfig has no argument {', '.join(sorted(unknown))}; it has "
                f"{', '.join(_SETTINGS)}."
            )
        both = ("save_checkpoints_steps", "save_checkpoints_secs")
        if not kwargs.keys() & set(both):
            kwargs["save_checkpoints_secs"] = 600
        if all(kwargs.get(name) is not None for name in both):
            raise ValueError(
                "Can not provide both save_checkpoints_steps and save_checkpoints_secs."
            )
        self._settings = _checked(_SETTINGS | kwargs) | dict.fromkeys(_DISTRIBUTED)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings", {})
        if name not in settings:
            raise AttributeError(f"RunConfig has no attribute {name!r}.")
        return settings[name]

    @property
    def ipu_run_config(self) -> IPURunConfig:
        """The settings of the IPU."""
        return self._ipu_run_config

    def replace(self, **kwargs: Any) -> RunConfig:
        """Returns a copy with other settings; `ipu_run_config` is one of them, too.

        Args:
            **kwargs: As those of the class.

        Raises:
            TypeError, ValueError, RefusedError: As those of the class.
        """
        given: dict[str, Any] = {"ipu_run_config": self._ipu_run_config} | self._given
        return RunConfig(**copy.copy(given | kwargs))
