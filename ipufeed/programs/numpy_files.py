"""NumPy's file formats for tensors: what they cannot hold is converted or refused.

They have no bfloat16. It is stored as float32, which has all of its values.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.render.files import write_whole
from ipufeed.tf_types import Variable


def file_start(name: str, value: object) -> str:
    """Returns the start of a file's path; in eager mode its folder must exist.

    Args:
        name: The argument's name, for errors.
        value: The argument.

    Raises:
        TypeError: It is not a path.
        FileNotFoundError: The folder does not exist.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(
            f"`{name}` must be a str or a path, got {type(value).__name__} {value!r}."
        )
    path = os.fspath(value)
    if tf.executing_eagerly():  # in a graph the folder may be made before the run
        _check_folder(path)
    return str(path)


def write_array(path: str, array: Any, what: str) -> None:
    """Writes a file `.npy`.

    Args:
        path: The file.
        array: Its content.
        what: What the array is, for errors.

    Raises:
        ValueError: The format cannot hold it.
        FileNotFoundError: The folder does not exist.
    """
    _check_folder(path)
    buffer = io.BytesIO()
    np.save(buffer, _storable(array, what), allow_pickle=False)
    write_whole(path, buffer.getvalue())


def write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Writes a file `.npz` of arrays by name. See write_array."""
    _check_folder(path)
    buffer = io.BytesIO()
    # Not np.savez, whose own parameters cannot be names.
    with zipfile.ZipFile(buffer, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as part:
                stored = _storable(array, f"`{name}`")
                np.lib.format.write_array(part, stored, allow_pickle=False)
    write_whole(path, buffer.getvalue())


def read_arrays(filenames: object) -> dict[str, Any]:
    """Returns the arrays of files that write_arrays has written.

    Args:
        filenames: A path or a list or tuple of them, with or without `.npz`.

    Raises:
        TypeError: It is neither.
        ValueError: A file has another format.
        OSError: A file cannot be read.
    """
    several = filenames if isinstance(filenames, (list, tuple)) else [filenames]
    values: dict[str, Any] = {}
    for name in several:
        if not isinstance(name, (str, os.PathLike)):
            raise TypeError(
                "`filenames` must be a path or a list of paths, got "
                f"{type(name).__name__} {name!r}."
            )
        path = os.fspath(name)
        path = path if path.endswith(".npz") else f"{path}.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                values |= {key: file[key] for key in file.files}
        except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"`filenames` must be files that export_variables has written; {path} "
                f"cannot be read as one: {error}"
            ) from None
    return values


def stacked(column: Sequence[Any], what: str) -> Any:
    """Returns the elements of a component as one array.

    Raises:
        ValueError: They have different shapes.
    """
    shapes = sorted({np.shape(each) for each in column})
    if len(shapes) > 1:
        raise ValueError(
            f"The elements of {what} must have one shape, got {list(shapes[0])} and "
            f"{list(shapes[1])}: use padding, or batch(n, drop_remainder=True)."
        )
    # As objects, since NumPy's own strings lose zeros at their end.
    text = isinstance(column[0], bytes)
    return np.array(column, object) if text else np.stack(column)


def fitting(variable: Variable, value: Any) -> Any:
    """Returns the value of a file as one for a variable.

    Raises:
        tf.errors.InvalidArgumentError: It has another shape or dtype.
    """
    dtype = tf.as_dtype(variable.dtype).base_dtype.name
    stored = "float32" if dtype == "bfloat16" else dtype
    found = "string" if value.dtype.kind == "S" else value.dtype.name
    if found != stored or value.shape != tuple(variable.shape):
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"The variable {variable.name} is {dtype} of shape {list(variable.shape)}, "
            f"its value in the file {found} of shape {list(value.shape)}.",
        )
    return tf.cast(value, dtype) if stored != dtype else value


def _check_folder(path: str) -> None:
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"The folder of {path} does not exist: make {folder} first."
        )


def _storable(array: Any, what: str) -> Any:
    array = np.asarray(array)
    if array.dtype == tf.bfloat16.as_numpy_dtype:
        return array.astype(np.float32)
    if array.dtype.kind != "O":
        return array
    texts = list(array.flat)
    if not all(isinstance(each, bytes) for each in texts) or any(
        each.endswith(b"\0") for each in texts
    ):
        raise ValueError(
            f"NumPy's files hold numbers, and texts that do not end with a zero; {what} "
            "has others."
        )
    return np.array(texts, "S").reshape(array.shape)
