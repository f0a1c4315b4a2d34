"""Checkpoints of estimators: found, and compared with a model before a session begins."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

# A checkpoint of tf.train.Checkpoint has this entry, and other names.
_OF_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_MOST_NAMED = 4


def step_of(checkpoint: str | None) -> int:
    """Returns the global step of a checkpoint; 0 without one."""
    if checkpoint is None:
        return 0
    return int(tf.train.load_variable(checkpoint, "global_step"))


def found_checkpoint(name: str, path: Any) -> str:
    """Returns the path of a checkpoint: of a folder, its latest.

    Args:
        name: The argument's name, for errors.
        path: A checkpoint or a folder.

    Raises:
        TypeError: It is not a path.
        ValueError: There is no checkpoint.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"`{name}` must be the path of a checkpoint or of its folder, got "
            f"{type(path).__name__}."
        )
    given = os.fspath(path)
    found = tf.train.latest_checkpoint(given) if tf.io.gfile.isdir(given) else given
    if found is None or not tf.compat.v1.train.checkpoint_exists(found):
        raise ValueError(
            f"`{name}` must be the path of a checkpoint or of its folder: there is none "
            f"at {given!r}."
        )
    return str(found)


def check_variables(checkpoint: str) -> None:
    """Checks that a checkpoint has the variables of the current graph.

    Raises:
        ValueError: It is that of another model.
    """
    saved = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    if _OF_OBJECTS in saved:
        return
    wrong = []
    for variable in tf.compat.v1.global_variables():
        name = variable.name.partition(":")[0]
        if variable._get_save_slice_info() is not None:  # a part of one of the file
            continue
        if name not in saved:
            wrong.append(f"it has no variable {name!r}")
        elif not variable.shape.is_compatible_with(saved[name]):
            wrong.append(
                f"{name!r} has the shape {saved[name]}, and {variable.shape} in the model"
            )
    if wrong:
        more = len(wrong) - _MOST_NAMED
        named = "; ".join(wrong[:_MOST_NAMED]) + (f"; and {more} more" * (more > 0))
        raise ValueError(
            f"The checkpoint {checkpoint} is of another model: {named}. Give another "
            "checkpoint, or a `model_dir` without any."
        )
