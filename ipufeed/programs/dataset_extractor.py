"""dataset_extractor: elements of a dataset, and variables, in NumPy's file formats.

    <filename>.<feed_name>.<i>.npy    component i of the elements, stacked
    <filename>.npz                    variables, by their names

Graphcore's module writes files for Poplar's readers, which do not exist here. A bfloat16 is
float32 in the files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.checks import flags_checked
from ipufeed.no_effect import no_effect
from ipufeed.programs.numpy_files import (
    file_start,
    fitting,
    read_arrays,
    stacked,
    write_array,
    write_arrays,
)
from ipufeed.queues.arguments import check_feed_name
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.tf_types import Dataset, Nest, Operation, Tensor, Variable

_EVERY = 1000  # elements between two lines of progress


@flags_checked
def dataset_extractor(
    dataset: Dataset,
    num_elements: int,
    filename: str,
    feed_name: str = "",
    print_stats: bool = True,
) -> Operation | list[str]:
    """Writes elements of a dataset to files, one for each component.

    Args:
        dataset: A tf.data.Dataset of tensors.
        num_elements: The number of elements, at least 1.
        filename: The start of the files' paths: `<filename>.<feed_name>.<i>.npy`, of shape
            [num_elements, ...].
        feed_name: A str without "/" and NUL. Default, also for None: "infeed".
        print_stats: Whether TensorFlow's log has a line per 1000 elements. Default: True.

    Returns:
        In a version 1 graph the operation that writes; in eager mode the files' paths.

    Raises:
        TypeError: `dataset` is not a dataset of tensors, `num_elements` not an int,
            `filename` not a path, or `feed_name` not a str.
        ValueError: `num_elements` is less than 1, `feed_name` has a "/" or NUL, or the
            elements have different shapes.
        FileNotFoundError: The files' folder does not exist; in a graph at the run.
        tf.errors.OutOfRangeError: At the run: the dataset has fewer elements.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"`dataset` must be a tf.data.Dataset, got {type(dataset).__name__}."
        )
    _check_components(dataset)
    if isinstance(num_elements, bool) or not isinstance(num_elements, int):
        raise TypeError(
            f"`num_elements` must be an int, got {type(num_elements).__name__}."
        )
    if num_elements < 1:
        raise ValueError("Expected `num_elements` to be at least 1.")
    _check_file_part(feed_name)
    begin = f"{file_start('filename', filename)}.{feed_name or 'infeed'}"
    if tf.executing_eagerly():
        rows = iter(dataset)
        elements = []
        for number in range(num_elements):
            elements.append(_flat(next(rows, None)))
            _progress(number + 1, print_stats)
        return _write_components(begin, elements)
    iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
    flat = tf.nest.flatten(iterator.get_next())

    def write(*columns: Any) -> np.int64:
        rows = list(zip(*columns, strict=True))
        _write_components(begin, rows)
        return np.int64(len(rows))

    def take(number: Tensor, *arrays: Any) -> Nest:
        return (
            number + 1,
            *(
                array.write(number, each)
                for array, each in zip(
                    arrays, tf.nest.flatten(iterator.get_next()), strict=True
                )
            ),
        )

    with tf.device("/device:CPU:0"):
        arrays = [tf.TensorArray(each.dtype, num_elements) for each in flat]
        _, *found = tf.while_loop(
            lambda number, *_: number < num_elements,
            take,
            [tf.constant(0), *arrays],
            parallel_iterations=1,
        )
        stacked = [each.stack() for each in found]
        return tf.numpy_function(write, stacked, tf.int64).op


def _check_components(dataset: Dataset) -> None:
    for place, spec in enumerate(tf.nest.flatten(dataset.element_spec)):
        if not isinstance(spec, tf.TensorSpec):
            raise TypeError(
                f"`dataset` must have tensors as elements, got {spec} as component "
                f"{place}: convert it with map, such as by tf.sparse.to_dense or the "
                "method to_tensor of a RaggedTensor."
            )


def _check_file_part(feed_name: object) -> None:
    check_feed_name(feed_name)
    if any(each in str(feed_name) for each in "/\0"):
        raise ValueError(
            "`feed_name` must be a part of a file's name, without '/' and NUL, got "
            f"{feed_name!r}. The folder belongs to the file's path."
        )


def _flat(element: Nest) -> list[Any]:
    if element is None:
        raise tf.errors.OutOfRangeError(
            None, None, "The dataset iterator has reached the end of the dataset."
        )
    return [each.numpy() for each in tf.nest.flatten(element)]


def _progress(number: int, print_stats: bool) -> None:
    if print_stats and number % _EVERY == 0:
        tf.get_logger().info("%d elements of the dataset have been read", number)


def _write_components(begin: str, elements: Sequence[Any]) -> list[str]:
    paths = []
    for place, column in enumerate(zip(*elements, strict=True)):
        path = f"{begin}.{place}.npy"
        what = f"component {place} of the dataset"
        write_array(path, stacked(column, what), what)
        paths.append(path)
    return paths


def get_variable_handles(variables: Sequence[Variable]) -> list[Tensor]:
    """Returns the name of each variable's memory: string tensors of shape [1].

    Args:
        variables: Resource variables.

    Raises:
        TypeError: One is not a variable.
    """
    names = []
    for variable in variables:
        if not hasattr(variable, "handle"):
            raise TypeError(
                f"`variables` must be tf.Variables, got {type(variable).__name__}."
            )
        name = getattr(variable, "_shared_name", variable.name.partition(":")[0])
        names.append(tf.constant([name.partition(":")[0]]))
    return names


@flags_checked
def export_variables(
    variables: Sequence[Variable],
    names: Sequence[str],
    filename: str,
    metadata: object = None,
    print_stats: bool = True,
) -> Operation | str:
    """Writes the values of variables to a file, `<filename>.npz`.

    Args:
        variables: The variables.
        names: Their names in the file.
        filename: The file, without its ending.
        metadata: No effect, with a warning: the arrays have dtypes and shapes.
        print_stats: Whether TensorFlow's log has a line. Default: True.

    Returns:
        In a version 1 graph the operation that writes; in eager mode the path.

    Raises:
        TypeError: `variables` or `names` is not a list or tuple, one of them is not a
            variable, or `filename` is not a path.
        ValueError: There is not one name for each variable, or a name occurs twice.
        FileNotFoundError: The file's folder does not exist; in a graph at the run.
    """
    if metadata is not None:
        no_effect("export_variables(metadata=)", "the arrays have dtypes and shapes")
    _check_list("variables", variables)
    _check_list("names", names)
    names = [str(name) for name in names]
    if len(names) != len(variables) or len(set(names)) < len(names):
        raise ValueError(
            f"`names` must be {len(variables)} different names, one for each variable, "
            f"got {names}."
        )
    path = f"{file_start('filename', filename)}.npz"

    def write(*values: Any) -> np.int64:
        write_arrays(path, dict(zip(names, values, strict=True)))
        if print_stats:
            tf.get_logger().info("%d variables are in %s", len(values), path)
        return np.int64(len(values))

    if tf.executing_eagerly():
        write(*(variable.numpy() for variable in variables))
        return path
    with tf.device("/device:CPU:0"):
        values = [tf.convert_to_tensor(variable) for variable in variables]
        return tf.numpy_function(write, values, tf.int64).op


def _check_list(name: str, values: object) -> None:
    """Raises TypeError unless an argument is a list, `variables` one of variables."""
    if not isinstance(values, Collection) or isinstance(values, (str, bytes)):
        raise TypeError(
            f"`{name}` must be a list or tuple, got {type(values).__name__}: give `[x]` "
            "for a single x."
        )
    for each in values:
        if name == "variables" and not hasattr(each, "assign"):
            raise TypeError(
                f"`variables` must be tf.Variables, got {type(each).__name__} {each!r}."
            )


@flags_checked
def import_variables(
    variables: Sequence[Variable],
    filenames: Sequence[str] | str,
    is_input: bool = True,
    strict: bool = True,
    print_stats: bool = True,
) -> Operation | None:
    """Assigns the values that export_variables has written, by the variables' names.

    Args:
        variables: The variables.
        filenames: The files, with or without their ending; the call reads them.
        is_input: False has no effect, with a warning: the files are the same.
        strict: Whether variables and files must have the same names. Default: True.
        print_stats: Whether TensorFlow's log has a line. Default: True.

    Returns:
        In a version 1 graph the operation that assigns; None in eager mode.

    Raises:
        TypeError: `variables` is not a list of variables, or `filenames` not of paths.
        ValueError: Two variables have one name, or a file has another format.
        tf.errors.InvalidArgumentError: `strict`, and a name has no counterpart; or a value
            has another shape or dtype than its variable.
        OSError: A file cannot be read.
    """
    _check_list("variables", variables)
    if not is_input:
        no_effect("import_variables(is_input=False)", "the files are the same")
    values = read_arrays(filenames)
    known = {variable.name.partition(":")[0]: variable for variable in variables}
    if len(known) < len(variables):
        names = sorted(variable.name for variable in variables)
        raise ValueError(
            "`variables` must have different names, by which the files have their values, "
            f"got {', '.join(names)}."
        )
    odd = sorted(known.keys() ^ values.keys())
    if strict and odd:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "The names of the variables and of the files must be the same; on one side "
            f"only: {', '.join(odd)}.",
        )
    assigned = [
        variable.assign(fitting(variable, values[name]), read_value=False)
        for name, variable in known.items()
        if name in values
    ]
    if print_stats:
        tf.get_logger().info("%d variables have been read", len(assigned))
    return None if tf.executing_eagerly() else tf.group(*assigned)


@flags_checked
def export_dataset_to_file(
    dataset_or_infeed: Tensor,
    output_filename: str,
    num_elements: int,
    feed_name: str = "",
    apply_debug_options: bool = True,
) -> Operation | list[str]:
    """Writes elements of a dataset, or of an infeed's dataset, to files.

    Args:
        dataset_or_infeed: A tf.data.Dataset, or an IPUInfeedQueue, whose ring is not read.
        output_filename: See dataset_extractor's `filename`.
        num_elements: The number of elements, at least 1.
        feed_name: See dataset_extractor. Default: an infeed's id, else "infeed".
        apply_debug_options: Whether tf.data's debug mode applies. Default: True.

    Returns:
        See dataset_extractor.

    Raises:
        TypeError: It is neither a dataset nor a queue; or see dataset_extractor.
        ValueError: See dataset_extractor.
    """
    _check_file_part(feed_name)  # before `or` takes the id for False or 0
    file_start("output_filename", output_filename)
    dataset = dataset_or_infeed
    if isinstance(dataset, IPUInfeedQueue):
        feed_name = feed_name or dataset._id
        dataset = dataset._dataset
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            "`dataset_or_infeed` must be a tf.data.Dataset or an IPUInfeedQueue, got "
            f"{type(dataset).__name__}."
        )
    if apply_debug_options:
        dataset = dataset._apply_debug_options()
    return dataset_extractor(dataset, num_elements, output_filename, feed_name)


def export_inputs_to_file(
    inputs: Sequence[Tensor], output_filename: str, feed_dict: dict[Tensor, Any]
) -> str:
    """Writes the values of tensors to a file, `<output_filename>.npz`, by their names.

    Args:
        inputs: Tensors, such as the placeholders of a program.
        output_filename: The file, without its ending.
        feed_dict: Values of placeholders. No effect in eager mode, where tensors have
            values and the names are input_0, input_1, and so on.

    Returns:
        The path.

    Raises:
        TypeError: `inputs` is not a list or tuple, or `output_filename` not a path.
        FileNotFoundError: The file's folder does not exist.
        tf.errors.InvalidArgumentError: A placeholder has no value.
    """
    _check_list("inputs", inputs)
    path = f"{file_start('output_filename', output_filename)}.npz"
    if tf.executing_eagerly():
        values = [tf.convert_to_tensor(each).numpy() for each in inputs]
        names = [f"input_{number}" for number in range(len(values))]
    else:
        session = tf.compat.v1.get_default_session()
        if session is None:
            with tf.compat.v1.Session() as own:
                values = own.run(list(inputs), feed_dict)
        else:
            values = session.run(list(inputs), feed_dict)
        names = [each.name.partition(":")[0] for each in inputs]
    write_arrays(path, dict(zip(names, values, strict=True)))
    return path
