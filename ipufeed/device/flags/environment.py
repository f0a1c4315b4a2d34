"""Reads the environment variables other than TF_POPLAR_FLAGS."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

# The text of these is part of a compiled program's hash, also if it has no effect.
HASHED_VARIABLES = (
    "POPLAR_ENGINE_OPTIONS",
    "POPLAR_TARGET_OPTIONS",
    "GCL_LIBRARY_PATH",
    "GCL_GP_PATH",
)

LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "OFF")


def _json_options(variable: str) -> dict[str, str]:
    text = os.environ.get(variable, "")
    if not text.strip():
        return {}
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{variable} must be JSON: {error}. Got {text!r}.") from None
    if not isinstance(options, dict):
        raise ValueError(f"{variable} must be a JSON object, got {text!r}.")
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in options.items()
    }


def poplar_engine_options() -> dict[str, str]:
    """Returns POPLAR_ENGINE_OPTIONS: options of the engine, which override the config's.

    The reader of an option checks its name.

    Raises:
        ValueError: It is not a JSON object.
    """
    return _json_options("POPLAR_ENGINE_OPTIONS")


def poplar_target_options() -> dict[str, str]:
    """Returns POPLAR_TARGET_OPTIONS, like poplar_engine_options."""
    return _json_options("POPLAR_TARGET_OPTIONS")


def poplar_runtime_options() -> dict[str, str]:
    """Returns POPLAR_RUNTIME_OPTIONS, such as hostSyncTimeout, likewise."""
    return _json_options("POPLAR_RUNTIME_OPTIONS")


def xla_flags() -> list[str]:
    """Returns the flags of XLA_FLAGS, which may also be the name of a file of flags.

    Raises:
        ValueError: The text has a quotation mark that is not closed.
    """
    text = os.environ.get("XLA_FLAGS", "")
    if text.strip() and not text.lstrip().startswith("-"):
        try:
            text = Path(text).read_text()
        except (OSError, ValueError):
            return []  # XLA reports it, or reads no flags either
    return shlex.split(text)


def poplar_log_level() -> str:
    """Returns POPLAR_LOG_LEVEL in capitals; "OFF" if it is not in LOG_LEVELS."""
    level = os.environ.get("POPLAR_LOG_LEVEL", "OFF").upper()
    return level if level in LOG_LEVELS else "OFF"


def variables_in_program_hash() -> dict[str, str]:
    """Returns the text of the variables whose change results in another program."""
    return {name: os.environ.get(name, "") for name in HASHED_VARIABLES}
