"""Makes a tf.data dataset of a loader, since only a dataset can feed the device.

    loader --next(), in Python--> arrays --from_generator--> tf.data --> infeed

Each element costs about 0.1 ms more than in the loader's own loop, in Python, in the
thread that requests it. Numbers of a type that no feed carries become int32 or float32.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipufeed.benchmark.loaders.failure import LoaderError, place_of
from ipufeed.benchmark.loaders.kinds import Kind
from ipufeed.benchmark.loaders.leaves import (
    Array,
    Element,
    Leaf,
    as_array,
    is_numbers,
    parts_of,
    text_of,
)
from ipufeed.errors import UnsupportedElementError
from ipufeed.interruptible import run_interruptibly
from ipufeed.tf_types import Dataset, Nest

CARRIED = {
    "int64": "int32",
    "uint32": "int32",
    "uint64": "int32",
    "int16": "int32",
    "uint16": "int32",
    "float64": "float32",
    "bfloat16": "float32",
}


def as_dataset(
    kind: Kind, first: Element, failures: list[LoaderError] | None = None
) -> Dataset:
    """Returns a tf.data.Dataset of the loader's elements.

    Its structure is that of the loader's first element; each iteration of the dataset
    starts a new pass.

    Args:
        kind: The loader's kind, which opens a pass over it.
        first: From first_of.
        failures: Gets what the loader raises, of which the dataset's error has the text
            only, in a traceback of TensorFlow.

    Returns:
        The dataset. Its cardinality is unknown: a loader's length may be wrong.

    Raises:
        UnsupportedElementError: (a ValueError) An element has leaves that are not arrays.
    """
    import tensorflow as tf

    arrays = arrays_of(first, "element")
    if not tf.nest.flatten(arrays):
        raise UnsupportedElementError(
            f"The loader's element must hold an array, got {text_of(first)} without one: "
            "nothing could be fed. Let the loader give arrays."
        )
    signature = tf.nest.map_structure(
        lambda array: tf.TensorSpec(array.shape, tf.as_dtype(array.dtype)), arrays
    )

    def generate() -> Iterator[Nest]:
        try:
            with kind.open() as iterator:
                for number, element in enumerate(iterator):
                    found = arrays_of(element, "element")
                    _check_alike(arrays, found, number)
                    yield found
        except GeneratorExit:  # TensorFlow needs no more
            raise
        except BaseException as error:  # sys.exit() in a loader, too
            if failures is not None:
                failures.append(LoaderError(error))
            raise

    dataset: Dataset = tf.data.Dataset.from_generator(
        generate, output_signature=signature
    )
    return dataset


def first_of(kind: Kind) -> Element:
    """Returns the loader's first element, which is read in a separate pass.

    The pass is on its own thread, as those of the measurement are: on the main thread a
    DataLoader of torch installs a handler which raises there when a worker ends, and
    Ctrl-C would not end a wait in native code.

    Raises:
        ValueError: The loader can be read only once, is empty, or fails at its first
            element.
    """
    if not kind.passes:
        raise ValueError(
            f"A run through the device reads the loader several times, and a {kind.name} "
            "is read once. Give a function that makes it: `def make_loader(): ...`."
        )

    def first() -> list[Element]:
        with kind.open() as iterator:
            return [element for _, element in zip(range(1), iterator, strict=False)]

    found = run_interruptibly(first, name="ipufeed_first_element")
    if found.interruption is not None:
        raise found.interruption
    error = found.error
    if error is not None:
        raise ValueError(
            f"The loader failed at element 0 (from 0) with {type(error).__name__}: "
            f"{error}{place_of(error)}"
        ) from error
    if not found.value:
        raise ValueError("The loader has no element: there is nothing to measure.")
    return found.value[0]


def _check_alike(first: Nest, other: Nest, number: int) -> None:
    """Raises UnsupportedElementError unless an element has the first one's shapes."""
    import tensorflow as tf

    specs = [
        [f"{each.dtype.name} {each.shape}" for each in tf.nest.flatten(arrays)]
        for arrays in (first, other)
    ]
    if specs[0] != specs[1]:
        raise UnsupportedElementError(
            f"element {number} (from 0) is {', '.join(specs[1])}, and the first one "
            f"{', '.join(specs[0])}: a device takes elements of one shape. Pad them, or "
            "leave a smaller last batch out (`drop_last=True` of a DataLoader)."
        )


def arrays_of(element: Element, path: str) -> Nest:
    """Returns the element with NumPy arrays as leaves, in a structure for tf.data."""
    parts = parts_of(element)
    if parts is not None:
        return {
            str(key): arrays_of(value, f"{path}[{key!r}]")
            for key, value in parts.items()
            if value is not None
        }
    if isinstance(element, (list, tuple)) and not is_numbers(element):
        return tuple(
            arrays_of(value, f"{path}[{number}]")
            for number, value in enumerate(element)
            if value is not None
        )
    array = _as_numbers(element)
    if array is None:
        raise UnsupportedElementError(
            f"{path} must be an array of real numbers, got {text_of(element)}: the "
            "device takes no strings or objects. Let the loader give arrays alone."
        )
    return array


def _as_numbers(leaf: Leaf) -> Array | None:
    """Returns the leaf as an array of a feed's type; None for a string or an object."""
    if isinstance(leaf, (str, bytes)):
        return None
    if hasattr(leaf, "detach"):  # a torch tensor
        try:
            array = np.asarray(leaf.detach().cpu().numpy())
        except TypeError:  # bfloat16, which NumPy does not know
            array = np.asarray(leaf.detach().cpu().float().numpy())
    else:
        found = as_array(leaf)
        if found is None:
            return None
        array = found
    if array.dtype.hasobject or array.dtype.kind not in "biufV":
        return None
    name = array.dtype.name
    if array.dtype.kind == "V" and name not in CARRIED:  # a structured one
        return None
    return array.astype(CARRIED[name]) if name in CARRIED else array
