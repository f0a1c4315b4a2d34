"""TF_POPLAR_FLAGS: the device's flags in the environment.

Read at first use, and whenever the system is configured: programs set it before the first
use, in child processes, or before they configure again. The other variables are in
environment.py, the syntax is in syntax.py.

Source: names, defaults and messages follow graphcore/tensorflow. It ends the process from
C++; here a PoplarFlagsError, a SystemExit, is raised, so that `finally` blocks run.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any

from ipufeed.device.flags import syntax
from ipufeed.device.flags.synthetic import (
    IN_ORDER,
    SyntheticDataCategory,
    SyntheticDataInitializer,
    parse_categories,
    parse_initializer,
)
from ipufeed.errors import PoplarFlagsError
from ipufeed.process_state import STATE

VARIABLE = "TF_POPLAR_FLAGS"

# Graphcore's shortest poll interval; smaller values are replaced by this one.
MIN_POLL_TIME_MS = 100

# The values of --show_progress_bar, in lower case: `auto` and those of a switch.
PROGRESS_BARS = ("auto", "true", "1", "false", "0")


def _flag(default: Any, text: str, in_hash: bool = False) -> Any:
    return dataclasses.field(
        default=default, metadata={"help": text, "in_hash": in_hash}
    )


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The values of all flags; each field is a flag, its help is in its metadata.

    Raises:
        PoplarFlagsError: The flags of synthetic data are invalid, or the progress bar's.
    """

    help: bool = _flag(False, "print the flags, and end")
    use_synthetic_data: bool = _flag(
        False, "transfer no data, of any category", in_hash=True
    )
    synthetic_data_categories: str = _flag(
        "",
        "transfer no data of these categories (infeed, outfeed, seed, hostembedding, "
        "parameters; between commas)",
        in_hash=True,
    )
    synthetic_data_initializer: str = _flag(
        "",
        "values of synthetic data: a number, uniform, normal or random",
        in_hash=True,
    )
    use_ipu_model: bool = _flag(False, "use the IPU Model, not hardware", in_hash=True)
    log_cycle_count: int = _flag(
        -1, "log the cycles that programs take on this device", in_hash=True
    )
    while_loop_brute_force_max_trip_count: int = _flag(
        128, "iterations to try when the count of a loop is derived", in_hash=True
    )
    max_compilation_threads: int = _flag(-1, "threads that compile; -1: all CPUs")
    max_infeed_threads: int = _flag(-1, "threads for datasets of infeeds; -1: all CPUs")
    executable_cache_path: str = _flag("", "directory of compiled programs")
    dump_schedule_as_dot: bool = _flag(False, "dump the schedule as a graph")
    tensor_map_file_path: str = _flag("", "directory of tensor maps")
    fallback_scheduler: bool = _flag(False, "use the simple scheduler", in_hash=True)
    allow_nans: bool = _flag(False, "compile with NaN allowed", in_hash=True)
    null_data_feed: bool = _flag(False, "feed constant buffers, not the dataset")
    show_progress_bar: str = _flag("auto", "while compiling: auto, true or false")
    use_on_demand: bool = _flag(False, "attach on demand where ALWAYS is configured")
    on_demand_device_poll_time: int = _flag(
        1000, "ms between attempts to attach on demand; at least 100"
    )
    on_demand_device_timeout: int = _flag(
        3600000, "ms after which attaching on demand fails"
    )
    ipu_model_tiles: int = _flag(
        -1, "tiles of an IPU of the IPU Model; -1: as configured", in_hash=True
    )
    sync_replica_start: bool = _flag(
        False, "start replicas of several processes together", in_hash=True
    )
    enable_hlo_verifier: bool = _flag(False, "check programs between passes")
    disable_poplar_version_check: bool = _flag(
        False, "take programs of another version from the cache", in_hash=True
    )
    save_vertex_graph: bool = _flag(False, "accepted, without an effect")

    def __post_init__(self) -> None:
        try:
            parse_initializer(self.synthetic_data_initializer)
            parse_categories(self.synthetic_data_categories)
        except ValueError as error:
            raise PoplarFlagsError(f"{VARIABLE}: {error}") from None
        if self.synthetic_data_initializer and not self.any_synthetic_data:
            raise PoplarFlagsError(
                f"{VARIABLE}: `synthetic_data_initializer` needs synthetic data: add "
                "--use_synthetic_data or --synthetic_data_categories=..."
            )
        if self.show_progress_bar.lower() not in PROGRESS_BARS:
            raise PoplarFlagsError(
                f"{VARIABLE}: --show_progress_bar must be auto, true or false, got "
                f"{self.show_progress_bar!r}"
            )
        poll_time = max(self.on_demand_device_poll_time, MIN_POLL_TIME_MS)
        object.__setattr__(self, "on_demand_device_poll_time", poll_time)

    @property
    def any_synthetic_data(self) -> bool:
        """Whether data of any category is synthetic."""
        return bool(self.use_synthetic_data or self.categories)

    @property
    def categories(self) -> frozenset[SyntheticDataCategory]:
        """The categories that `--synthetic_data_categories` names."""
        return parse_categories(self.synthetic_data_categories)

    @property
    def initializer(self) -> SyntheticDataInitializer:
        """How synthetic data is filled."""
        return parse_initializer(self.synthetic_data_initializer)

    def use_synthetic_data_for(
        self, category: SyntheticDataCategory | str | int
    ) -> bool:
        """Returns whether data of a category is synthetic.

        Args:
            category: A category, its name in the flag, or Graphcore's number for it.

        Raises:
            ValueError: The category is unknown.
        """
        if isinstance(category, int) and 0 <= category < len(IN_ORDER):
            category = IN_ORDER[category]
        try:
            known = SyntheticDataCategory(category)
        except ValueError:
            names = ", ".join(repr(each.value) for each in SyntheticDataCategory)
            raise ValueError(
                "synthetic_data_category must be a SyntheticDataCategory, one of "
                f"{names}, or its number, got {category!r}."
            ) from None
        return self.use_synthetic_data or known in self.categories

    def in_program_hash(self) -> dict[str, bool | int | str]:
        """Returns the flags whose change results in another program, by name.

        Categories are sorted, so that the hash does not depend on their order.
        """
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata["in_hash"]
        }
        names = sorted(category.value for category in self.categories)
        return values | {"synthetic_data_categories": ",".join(names)}


def usage() -> str:
    """Returns the help text: all flags, with their defaults and descriptions."""
    lines = [
        f"  --{field.name}={str(field.default).lower()}\n      {field.metadata['help']}"
        for field in dataclasses.fields(Flags)
    ]
    return "\n".join([f"Flags of {VARIABLE}, with their defaults:", *lines])


_PARSERS = {
    "bool": syntax.parse_bool,
    "int": syntax.parse_int,
    "str": syntax.parse_str,
}


def parse_flags(text: str) -> Flags:
    """Parses the value of TF_POPLAR_FLAGS; the last of equal flags counts.

    Raises:
        PoplarFlagsError: A flag is unknown, or its value is invalid.
        SystemExit: With code 0, after printing the flags, for `--help`.
    """
    parsers = {
        f"--{field.name}": _PARSERS[str(field.type)]
        for field in dataclasses.fields(Flags)
    }
    values: dict[str, Any] = {}
    unknown = []
    for name, value in syntax.split_flags(text):
        if name not in parsers:
            unknown.append(name)
            continue
        try:
            values[name[2:]] = parsers[name](value)
        except ValueError as error:
            raise PoplarFlagsError(f"{VARIABLE}: {name} {error}") from None
    if unknown:
        raise PoplarFlagsError(
            f"Unknown flags in {VARIABLE}: {' '.join(unknown)}. With unknown flags no "
            f"program is run; the known ones are {' '.join(parsers)}. A value stands "
            "after `=`, without white space."
        )
    flags = Flags(**values)
    if flags.help:
        print(usage(), file=sys.stderr)  # noqa: T201 - the output of --help
        raise SystemExit(0)
    return flags


_lock = threading.Lock()
_current: Flags | None = None


def read_flags() -> Flags:
    """Parses the environment's flags; the result of `get_flags` does not change.

    Raises:
        PoplarFlagsError: The environment variable is invalid.
    """
    return parse_flags(os.environ.get(VARIABLE, ""))


def use_flags(flags: Flags) -> None:
    """Sets the flags that `get_flags` returns."""
    global _current
    with _lock:
        _current = flags


@STATE.part("flags")
def _forget_flags() -> None:
    global _current
    with _lock:
        _current = None


def get_flags() -> Flags:
    """Returns the flags that were read last; the first call reads them.

    Raises:
        PoplarFlagsError: The environment variable is invalid.

    Threads: any.
    """
    global _current
    with _lock:
        if _current is None:
            _current = read_flags()
        return _current


def use_synthetic_data_for(
    synthetic_data_category: SyntheticDataCategory | str | int,
) -> bool:
    """Returns whether data of a category is synthetic, by the flags read last.

    Raises:
        ValueError: The category is unknown.
        PoplarFlagsError: The environment variable is invalid.
    """
    return get_flags().use_synthetic_data_for(synthetic_data_category)


def running_on_ipu_model() -> bool:
    """Returns whether TF_POPLAR_FLAGS contains "--use_ipu_model" now.

    As in Graphcore's, the flag's value is ignored, `=false` included.
    """
    return "--use_ipu_model" in os.environ.get(VARIABLE, "")
