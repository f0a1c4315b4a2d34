"""Loads the dataset that the command line names."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ipufeed.benchmark.load import native_import
from ipufeed.benchmark.process.streams import print_message
from ipufeed.errors import (
    DatasetFileError,
    NativeLibraryError,
    SourceError,
    frames_from,
)


def load_dataset(
    target: str | None, assignments: Sequence[str], quiet: bool
) -> tuple[Any, str]:
    """Returns the dataset or loader, and its name in the result.

    Args:
        target: `FILE` or `FILE:NAME`; None for the built-in pipeline.
        assignments: Values for its factory, as `batch_size=32`.
        quiet: Whether only errors are printed on stderr.

    Raises:
        DatasetFileError: The file has no dataset, or the values do not fit.
        ScriptError: The file itself raised an exception.
    """
    from ipufeed.benchmark.load import dataset_file

    texts = dataset_file.parse_assignments(list(assignments))
    if target is None:
        return _load_builtin(texts, quiet)
    path, name = dataset_file.split_target(target)
    if not path.is_file():
        raise DatasetFileError(
            f"{path} is {'not a file' if path.exists() else 'not there'}: give a Python "
            "file that defines a dataset, or none for the built-in one."
        )
    try:
        with native_import.loads_native(path):
            module = dataset_file.run_file(path)
        _pickle_by_value(module)
        dataset, found = dataset_file.find_dataset(
            module,
            name,
            texts,
            str(path),
            (lambda note: None) if quiet else print_message,
        )
    except (DatasetFileError, NativeLibraryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ScriptError(error, path) from error
    return dataset, f"{path.name}:{found}"


def _pickle_by_value(module: ModuleType) -> None:
    """Lets Ray's workers get the file's functions, as they do with `python file.py`.

    They would import the file, whose `ray.init()` fails in a worker.
    """
    register = getattr(
        sys.modules.get("ray.cloudpickle"), "register_pickle_by_value", None
    )
    if register is not None:
        register(module)


def _load_builtin(texts: dict[str, str], quiet: bool) -> tuple[Any, str]:
    from ipufeed.benchmark.load import builtin, dataset_file

    native_import.load_native()
    if not quiet:
        print("no file given: measuring the built-in JPEG pipeline", file=sys.stderr)
    try:
        dataset = dataset_file.call_factory(
            builtin.make_dataset, "make_dataset", texts, "the built-in pipeline"
        )
    except (TypeError, ValueError) as error:
        raise DatasetFileError(str(error)) from error
    return dataset, "built-in JPEG pipeline"


class ScriptError(Exception):
    """A dataset file raised an exception; `show` prints it as Python would."""

    def __init__(self, error: BaseException, path: Path) -> None:
        super().__init__(str(error))
        self.error = error
        self.path = path

    def show(self) -> None:
        """Prints the file's own traceback, without the frames of ipufeed above it."""
        error = self.error
        if isinstance(error, SystemExit):
            print_message(
                f"{self.path} called sys.exit({error.code!r}) before it returned a "
                "dataset."
            )
            return
        frames = frames_from(error.__traceback__, str(self.path))
        if isinstance(error, SourceError) and frames is not None:
            # The message has the remedy, which a traceback of ipufeed would hide.
            print_message(f"{self.path}:{frames.tb_lineno}: {error}")
            return
        traceback.print_exception(type(error), error, frames)
        if isinstance(error, ImportError) and "relative import" in str(error):
            print_message(
                f"{self.path} is run as a file, which belongs to no package. Write "
                "`from package.module import name` instead of `from .module import name`, "
                "and put the folder that holds the package on PYTHONPATH; or `from module "
                "import name` for a module next to the file."
            )
