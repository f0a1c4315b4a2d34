"""Loads the dataset that the command line names."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ipufeed import _quiet_import
from ipufeed.benchmark.process.messages import drop_message, print_message
from ipufeed.errors import DatasetFileError, SourceError


def load_dataset(
    target: str | None, assignments: Sequence[str], quiet: bool
) -> tuple[Any, str]:
    """The dataset that was asked for, and what to call it.

    Args:
        target: Its file, with a name in it; None for the built-in pipeline.
        assignments: Values for its function, as `batch_size=32`.
        quiet: Whether stderr gets only errors.
    """
    from ipufeed.benchmark.load import dataset_file

    texts = dataset_file.parse_assignments(list(assignments))
    if target is None:
        return load_builtin(texts, quiet)
    path, name = dataset_file.split_target(target)
    if not path.is_file():
        raise DatasetFileError(
            f"{path} is {'not a file' if path.exists() else 'not there'}: give a Python "
            "file that defines a dataset, or none for the built-in one."
        )
    load_native()
    try:
        module = dataset_file.run_file(path)
        dataset, found = dataset_file.find_dataset(
            module, name, texts, str(path), drop_message if quiet else print_message
        )
    except (DatasetFileError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ScriptError(error, path) from error
    return dataset, f"{path.name}:{found}"


def load_builtin(texts: dict[str, str], quiet: bool) -> tuple[Any, str]:
    """The built-in pipeline, which takes --set like any factory."""
    from ipufeed.benchmark.load import builtin, dataset_file

    load_native()
    if not quiet:
        print("no file given: measuring the built-in JPEG pipeline", file=sys.stderr)
    try:
        dataset = dataset_file.call_factory(
            builtin.make_dataset, "make_dataset", texts, "the built-in pipeline"
        )
    except (TypeError, ValueError) as error:
        raise DatasetFileError(str(error)) from error
    return dataset, "built-in JPEG pipeline"


def load_native() -> None:
    """Before the file runs: TensorFlow must not have started when the library comes."""
    with _quiet_import.hushed("3"):  # the GPUs are missed later on, too
        from ipufeed import _native

        _native.load()


class ScriptError(Exception):
    """A dataset file raised something; `show` prints it as Python would have."""

    def __init__(self, error: BaseException, path: Any) -> None:
        super().__init__(str(error))
        self.error = error
        self.path = path

    def show(self) -> None:
        """The file's own traceback, without our frames above it."""
        error = self.error
        if isinstance(error, SystemExit):
            print_message(
                f"{self.path} called sys.exit({error.code!r}) before it gave a dataset."
            )
            return
        frames = own_frames(error.__traceback__, str(self.path))
        if isinstance(error, SourceError) and frames is not None:
            # The message has the cure: our own frames would bury it.
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


def own_frames(frames: TracebackType | None, path: str) -> TracebackType | None:
    """The traceback from the first frame in the file on; None if none is in it."""
    while frames is not None and frames.tb_frame.f_code.co_filename != path:
        frames = frames.tb_next
    return frames
