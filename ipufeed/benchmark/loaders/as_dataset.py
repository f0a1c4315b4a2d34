"""Makes a tf.data dataset of a loader, since only a dataset can feed the device.

    loader --next(), in Python--> arrays --from_generator--> tf.data --> infeed

Each element costs some tenths of a millisecond more than in the loader's own loop, in
Python, in the thread that requests it. Numbers of a type that no feed carries become int32
or float32, and strings are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

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
from ipufeed.benchmark.result.sections import WarningSection
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
MOST_PLACES = 3  # that a warning names


@dataclass
class Reading:
    """What is known of a loader that is read as a dataset.

    Attributes:
        failures: What it has raised: the dataset's error has the text only, in a traceback
            of TensorFlow.
        elements: The elements that it has given, behind the first one of each pass.
        seconds: The time in which they were waited for.
        texts: The places of strings in an element, which are left out.

    Threads: one iteration at a time adds to it.
    """

    failures: list[LoaderError] = field(default_factory=list)
    elements: int = 0
    seconds: float = 0.0
    texts: list[str] = field(default_factory=list)

    @property
    def seconds_each(self) -> float | None:
        """The loader's own time per element; None without elements."""
        return self.seconds / self.elements if self.elements else None

    def warnings(self) -> list[WarningSection]:
        """Returns the warning that strings are left out; none without any."""
        if not self.texts:
            return []
        places = ", ".join(self.texts[:MOST_PLACES])
        more = len(self.texts) - MOST_PLACES
        places += f" and {more} more" if more > 0 else ""
        return [
            {
                "code": "strings_left_out",
                "message": f"Strings are not fed, since no device takes them: {places}.",
            }
        ]


def as_dataset(kind: Kind, first: Element, reading: Reading | None = None) -> Dataset:
    """Returns a tf.data.Dataset of the loader's elements.

    Its structure is that of the loader's first element; each iteration of the dataset
    starts a new pass.

    Args:
        kind: The loader's kind, which opens a pass over it.
        first: From first_of.
        reading: Gets what is known of the loader when it is read.

    Returns:
        The dataset. Its cardinality is unknown: a loader's length may be wrong.

    Raises:
        UnsupportedElementError: (a ValueError) An element has leaves that are not arrays.
    """
    import tensorflow as tf

    read = reading or Reading()
    arrays = arrays_of(first, "element", read.texts)
    if not tf.nest.flatten(arrays):
        raise UnsupportedElementError(
            f"The loader's element must hold an array, got {text_of(first)} without one: "
            "nothing could be fed. Let the loader give arrays."
        )
    signature = tf.nest.map_structure(
        lambda array: tf.TensorSpec(array.shape, tf.as_dtype(array.dtype)), arrays
    )

    forms = _forms_of(arrays)

    def generate() -> Iterator[Nest]:
        try:
            with kind.open() as iterator:
                called = 0.0  # not yet: the first element takes a start-up
                for number, element in enumerate(iterator):
                    if called:
                        read.seconds += time.monotonic() - called
                        read.elements += 1
                    found = arrays_of(element, "element")
                    if _forms_of(found) != forms:
                        raise _unlike(arrays, found, number)
                    yield found
                    called = time.monotonic()
        except GeneratorExit:  # TensorFlow needs no more
            raise
        except BaseException as error:  # sys.exit() in a loader, too
            read.failures.append(LoaderError(error))
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


def _forms_of(arrays: Nest) -> object:
    """Returns the dtypes and shapes in a structure, in the same structure."""
    if isinstance(arrays, dict):
        return {key: _forms_of(each) for key, each in arrays.items()}
    if isinstance(arrays, tuple):
        return [_forms_of(each) for each in arrays]
    return arrays.dtype, arrays.shape


def _unlike(first: Nest, other: Nest, number: int) -> UnsupportedElementError:
    """Returns the error of an element that has not the first one's shapes."""
    import tensorflow as tf

    specs = [
        ", ".join(f"{each.dtype.name} {each.shape}" for each in tf.nest.flatten(arrays))
        for arrays in (first, other)
    ]
    return UnsupportedElementError(
        f"element {number} (from 0) is {specs[1] or 'without an array'}, and the first one "
        f"{specs[0]}: a device takes elements of one shape. Pad them, or "
        "leave a smaller last batch out (`drop_last=True` of a DataLoader)."
    )


def arrays_of(element: Element, path: str, texts: list[str] | None = None) -> Nest:
    """Returns the element with NumPy arrays as leaves, in a structure for tf.data.

    Args:
        element: The element.
        path: Its name, for messages.
        texts: Gets the places of what is left out: strings, which no device takes, and
            lists and the like of nothing else.

    Raises:
        UnsupportedElementError: Another leaf is not an array of real numbers.
    """
    found = _arrays_of(element, path, [] if texts is None else texts)
    return () if found is None else found


def _arrays_of(element: Element, path: str, texts: list[str]) -> Nest | None:
    """As arrays_of; None if nothing is left."""
    # To ask an array whether it has parts takes longer than to take it.
    parts = None if type(element) is np.ndarray else parts_of(element)
    own: list[str] = []
    kept: Nest
    if parts is not None:
        named = {
            str(key): _arrays_of(value, f"{path}[{key!r}]", own)
            for key, value in parts.items()
            if value is not None
        }
        kept = {key: each for key, each in named.items() if each is not None}
    elif isinstance(element, (list, tuple)) and not is_numbers(element):
        items = [
            _arrays_of(value, f"{path}[{number}]", own)
            for number, value in enumerate(element)
            if value is not None
        ]
        kept = tuple(each for each in items if each is not None)
    else:
        return _leaf_of(element, path, texts)
    if own and not kept:
        texts.append(path)
        return None
    texts += own
    return kept


def _leaf_of(leaf: Leaf, path: str, texts: list[str]) -> Array | None:
    """Returns the array of a leaf; None for strings, whose place `texts` gets."""
    array = None if isinstance(leaf, (str, bytes)) else _as_numbers(leaf)
    if array is not None:
        return array
    if _is_text(leaf):
        texts.append(path)
        return None
    raise UnsupportedElementError(
        f"{path} must be an array of real numbers, got {text_of(leaf)}, which the device "
        "does not take. Let the loader give arrays of numbers, or strings, which are left "
        "out."
    )


def _is_text(leaf: Leaf) -> bool:
    """Whether a leaf is a string, or an array or a column of strings."""
    if isinstance(leaf, (str, bytes)):
        return True
    array = as_array(leaf)
    if array is None or array.dtype.kind in "US":
        return array is not None
    is_object = array.dtype.kind == "O" and array.size > 0
    return is_object and isinstance(array.flat[0], (str, bytes))


def _as_numbers(leaf: Leaf) -> Array | None:
    """Returns the leaf as an array of a feed's type; None for strings and objects."""
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
    carried = CARRIED.get(name)
    if carried is None and name.startswith("float8_"):
        carried = "float32"
    if carried is None and array.dtype.kind == "V":  # a structured one
        return None
    return array if carried is None else array.astype(carried)
