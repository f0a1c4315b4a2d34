"""Makes a tf.data dataset of a loader, since only a dataset can feed the device.

    loader --next(), in Python--> arrays --native copy--> tf.data --> infeed

Each element costs some microseconds more than in the loader's own loop, in Python, in the
thread that requests it, and its copy. Numbers of a type that no feed carries become int32
or float32, and strings are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ipufeed.benchmark.loaders.element_arrays import arrays_of, flat_reader
from ipufeed.benchmark.loaders.failure import LoaderError, place_of
from ipufeed.benchmark.loaders.kinds import Kind
from ipufeed.benchmark.loaders.leaves import Array, Element, text_of
from ipufeed.benchmark.result.sections import WarningSection
from ipufeed.errors import UnsupportedElementError
from ipufeed.interruptible import run_interruptibly
from ipufeed.sources.python_elements import python_elements
from ipufeed.tf_types import Dataset, Nest

MOST_PLACES = 3  # that a warning names


@dataclass
class Reading:
    """What is known of a loader that is read as a dataset.

    Attributes:
        failures: What it has raised: the dataset's error has the text only, in a traceback
            of TensorFlow.
        elements: The elements that it has given, behind the very first one.
        seconds: The time in which they were waited for, and each later pass was begun.
        texts: The places of strings in an element, which are left out.
        is_begun: Whether a pass has begun.

    Threads: one iteration at a time adds to it.
    """

    failures: list[LoaderError] = field(default_factory=list)
    elements: int = 0
    seconds: float = 0.0
    texts: list[str] = field(default_factory=list)
    is_begun: bool = False

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

    flat = flat_reader(first)

    def generate() -> Iterator[list[Array]]:
        is_left = False  # the pass ends before the loader
        # The very first element takes a start-up, which is in no period.
        called = time.monotonic() if read.is_begun else 0.0
        read.is_begun = True
        try:
            with kind.open() as iterator:
                for number, element in enumerate(iterator):
                    if called:
                        read.seconds += time.monotonic() - called
                        read.elements += 1
                    found = flat(element)
                    if found is None:
                        raise _unlike(arrays, arrays_of(element, "element"), number)
                    try:
                        yield found
                    except GeneratorExit:
                        is_left = True
                        raise
                    called = time.monotonic()
        except BaseException as error:  # sys.exit() in a loader, too
            if not is_left:
                read.failures.append(LoaderError(error))
            raise

    return python_elements(generate, signature)


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


def _unlike(first: Nest, other: Nest, number: int) -> UnsupportedElementError:
    """Returns the error of an element that has not the first one's arrays."""
    expected, found = _forms_by_place(first, ""), _forms_by_place(other, "")
    places = [
        place
        for place in {**expected, **found}
        if expected.get(place) != found.get(place)
    ]
    what = "structure"
    if expected.keys() == found.keys() and places:
        alike = all(
            expected[place].split()[0] == found[place].split()[0] for place in places
        )
        what = "shape" if alike else "dtype and shape"
    texts = [
        f"{found.get(place, 'nothing')}{place and f' at {place}'}, where the first one has "
        f"{expected.get(place, 'nothing')}"
        for place in places[:MOST_PLACES]
    ]
    if len(places) > MOST_PLACES:
        texts.append(f"{len(places) - MOST_PLACES} more differences")
    remedy = "Let the loader give the same arrays in each element."
    if what == "shape":
        remedy = (
            "Pad them, or leave a smaller last batch out (`drop_last=True` of a "
            "DataLoader)."
        )
    return UnsupportedElementError(
        f"element {number} (from 0) has {'; '.join(texts) or 'another structure'}: a "
        f"device takes elements of one {what}. {remedy}"
    )


def _forms_by_place(arrays: Nest, place: str) -> dict[str, str]:
    """Returns the dtype and the shape of each array in a structure, by its place."""
    parts: Iterable[tuple[object, Nest]]
    if isinstance(arrays, dict):
        parts = arrays.items()
    elif isinstance(arrays, tuple):
        parts = enumerate(arrays)
    else:
        return {place: f"{arrays.dtype.name} {arrays.shape}"}
    return {
        name: form
        for key, each in parts
        for name, form in _forms_by_place(each, f"{place}[{key!r}]").items()
    }
