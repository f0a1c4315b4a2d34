"""Makes a tf.data dataset of a loader, since only a dataset can be fed.

    loader --next(), in Python--> arrays --native copy--> tf.data --> infeed

Each element costs some tens of microseconds more than in the loader's own loop, in
Python, in the thread that requests it, and its copy. Numbers of a type that no feed
carries become int32 or float32.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ipufeed.errors import UnsupportedElementError
from ipufeed.interruptible import run_interruptibly
from ipufeed.sources.loaders.element_arrays import (
    Cast,
    arrays_of,
    flat_reader,
    held,
    rounded,
)
from ipufeed.sources.loaders.failure import EmptyLoaderError, LoaderError
from ipufeed.sources.loaders.kinds import (
    DATA,
    Kind,
    Loader,
    Remade,
    as_loader,
    kind_of,
    why_not,
)
from ipufeed.sources.loaders.leaves import Array, Element, text_of
from ipufeed.sources.loaders.python_elements import python_elements
from ipufeed.tf_types import Dataset, Nest

MOST_PLACES = 3  # that a message names


@dataclass
class Reading:
    """What is known of a loader that is read as a dataset.

    Attributes:
        failure: What it raised first: the dataset's error has the text only, in a
            traceback of TensorFlow.
        elements: The elements that it has given, behind the very first one.
        seconds: The time in which they were waited for, and each later pass was begun.
        texts: The places of strings in an element, which are left out.
        is_begun: Whether a pass has begun.
        refuses_empty: Whether a pass without an element is an error. The first one had
            one: iter() of a loader around an iterator does not start again.

    Threads: one iteration at a time adds to it.
    """

    failure: LoaderError | None = None
    elements: int = 0
    seconds: float = 0.0
    texts: list[str] = field(default_factory=list)
    is_begun: bool = False
    refuses_empty: bool = False

    @property
    def seconds_each(self) -> float | None:
        """The loader's own time per element; None without elements."""
        return self.seconds / self.elements if self.elements else None


def from_loader(loader: Loader) -> Dataset:
    """Returns a dataset of what a loader of another framework gives, to feed it.

        dataset = ipufeed.sources.from_loader(torch_dataloader)
        queue = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset.repeat())

    The way from Python is a native one: an element takes some tens of microseconds and a
    copy, a tenth of the time of tf.data.Dataset.from_generator or less
    (`python -m benchmarks.targets --only loaders`). The loader's threads and processes
    stay its own. An element is read when it is requested: `.prefetch(2)` reads ahead.

    Args:
        loader: What `python -m ipufeed.benchmark` takes: a DataLoader of PyTorch, Grain
            or SPDL, a Ray, Hugging Face or Keras dataset, an object with `__iter__`, or
            a function without arguments that returns one, such as a generator function.
            It is read in several passes: the first element in one of its own now, then
            one pass for each iteration of the dataset.

    Returns:
        The dataset, of unknown cardinality. An element has the structure of the loader's
        first one: dicts, and tuples for lists and tuples; a list of Python's numbers is
        one array, and None is left out. Shapes are those of the first element. Dtypes are
        those that a feed carries: integers of 16, 64 and unsigned 32 bits become int32,
        float64, bfloat16 and float8 become float32, all others stay.

    Raises:
        TypeError: It is not a loader, or a function that returns one.
        ValueError: It can be read only once, is empty, or fails at its first element.
        UnsupportedElementError: (a ValueError) An element has strings, or objects that
            are not arrays of real numbers.

    Errors while it is iterated: an exception of the loader is the tf.errors.OpError that
    it would be in a tf.py_function, with its type, its text and its line, and ends the
    pass. An element of another structure or shape than the first one (a smaller last
    batch), and a number that int32 or float32 does not hold, are a
    tf.errors.InvalidArgumentError that names the place; the next element can be read. So
    is a second pass that is begun with the iterator of an open one: the first one ends
    with it. And so is a pass without an element.

    Threads: the loader is read on those of tf.data, never on the main one; each pass by
    one at a time.
    """
    kind = kind_of(as_loader(loader))
    if kind is None and callable(loader):
        made = loader()
        if kind_of(made) is None:
            raise TypeError(f"The function must return {_not_a_loader(made)}")
        kind = kind_of(Remade(loader, made))
    if kind is None:
        raise TypeError(f"`loader` must be {_not_a_loader(loader)}")
    reading = Reading(refuses_empty=True)
    dataset = as_dataset(kind, first_of(kind), reading, held)
    if reading.texts:
        raise UnsupportedElementError(
            "The loader's element has strings, which no device takes: "
            f"{places_of(reading.texts)}. Give a generator function that yields the rest."
        )
    return dataset


def places_of(texts: list[str]) -> str:
    """Returns the first of the places in an element, and how many more there are."""
    more = len(texts) - MOST_PLACES
    shown = ", ".join(texts[:MOST_PLACES])
    return f"{shown} and {more} more" if more > 0 else shown


def _not_a_loader(source: object) -> str:
    remedy = why_not(source) or (
        "For a tf.data.Dataset there is nothing to do: feed it as it is."
        if hasattr(source, "element_spec")
        else "Data in memory is a dataset by tf.data.Dataset.from_tensor_slices."
        if isinstance(source, DATA)
        else "Give an object that has `__iter__`, or a generator function."
    )
    return (
        "a loader, which can be iterated, or a function that returns one, got "
        f"{type(source).__name__}. {remedy}"
    )


def as_dataset(
    kind: Kind,
    first: Element,
    reading: Reading | None = None,
    cast: Cast = rounded,
) -> Dataset:
    """Returns a tf.data.Dataset of the loader's elements.

    Its structure is that of the loader's first element; each iteration of the dataset
    starts a new pass.

    Args:
        kind: The loader's kind, which opens a pass over it.
        first: From first_of.
        reading: Gets what is known of the loader when it is read.
        cast: Casts the numbers of a dtype that feeds do not carry.

    Returns:
        The dataset. Its cardinality is unknown: a loader's length may be wrong.

    Raises:
        UnsupportedElementError: (a ValueError) An element has leaves that are not arrays.
    """
    import tensorflow as tf

    read = reading or Reading()
    arrays = arrays_of(first, "element", read.texts, cast)
    if not tf.nest.flatten(arrays):
        raise UnsupportedElementError(
            f"The loader's element must hold an array, got {text_of(first)} without one: "
            "nothing could be fed. Let the loader give arrays."
        )
    signature = tf.nest.map_structure(
        lambda array: tf.TensorSpec(array.shape, tf.as_dtype(array.dtype)), arrays
    )

    return python_elements(_Passes(kind, read, first, arrays, cast), signature)


_END = object()
_EMPTY_PASS = (
    "a pass over the loader gave no element, unlike the first one: its iter() does not "
    "start again. Give a function that makes a new loader: `def make_loader(): ...`."
)
_TWO_PASSES = (
    "a second pass over the loader was begun before the end of this one, and iter() gave "
    "the same iterator for both, as that of a DataLoader with persistent_workers=True. "
    "Iterate the dataset once at a time, or make a loader for each iteration."
)


class _Passes:
    """Opens the passes of a dataset over a loader.

    Args:
        kind: The loader's kind.
        reading: Gets what is known of the loader.
        first: Its first element.
        arrays: The arrays of that.
        cast: Casts the numbers of a dtype that feeds do not carry.
    """

    def __init__(
        self, kind: Kind, reading: Reading, first: Element, arrays: Nest, cast: Cast
    ) -> None:
        self._kind = kind
        self._reading = reading
        self._arrays = arrays
        self._cast = cast
        self._flat = flat_reader(first, cast)
        # The last pass of an iterator, by the iterator's identity.
        self._newest: dict[int, object] = {}

    def __call__(self) -> Iterator[list[Array] | Exception]:
        """Yields the elements of a pass; of one that is unfit the error."""
        own, reading = object(), self._reading
        is_left = False  # the pass ends before the loader
        # The very first element takes a start-up, which is in no period.
        called = time.monotonic() if reading.is_begun else 0.0
        reading.is_begun = True
        try:
            with self._kind.open() as iterator:
                self._newest[id(iterator)] = own
                for number in itertools.count():
                    if self._newest.get(id(iterator)) is not own:
                        raise ValueError(_TWO_PASSES)
                    element = next(iterator, _END)
                    if element is _END:
                        if number == 0 and reading.refuses_empty:
                            raise ValueError(_EMPTY_PASS)
                        break
                    if called:
                        reading.seconds += time.monotonic() - called
                        reading.elements += 1
                    try:
                        yield self._found_in(element, number)
                    except GeneratorExit:
                        is_left = True
                        raise
                    called = time.monotonic()
        except BaseException as error:  # sys.exit() in a loader, too
            if not is_left:
                reading.failure = reading.failure or LoaderError(error)
            raise
        finally:
            for key, each in list(self._newest.items()):
                if each is own:
                    del self._newest[key]

    def _found_in(self, element: Element, number: int) -> list[Array] | Exception:
        try:
            found = self._flat(element)
            if found is not None:
                return found
            other = arrays_of(element, "element", cast=self._cast)
            error = _unlike(self._arrays, other, number)
        except UnsupportedElementError as unfit:
            error = UnsupportedElementError(f"element {number} (from 0): {unfit}")
        self._reading.failure = self._reading.failure or LoaderError(error)
        return error


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
            "A loader that feeds a device is read in several passes, and a "
            f"{kind.name} is read once. Give a function that makes it: `def "
            "make_loader(): ...`."
        )

    def first() -> list[Element]:
        with kind.open() as iterator:
            return [element for _, element in zip(range(1), iterator, strict=False)]

    found = run_interruptibly(first, name="ipufeed_first_element")
    if found.interruption is not None:
        raise found.interruption
    error = found.error
    if error is not None:
        failed = LoaderError(error)
        raise ValueError(
            f"The loader failed before its first element with {failed.kind}: "
            f"{failed.message}"
        ) from error
    if not found.value:
        raise EmptyLoaderError("The loader has no element: there is nothing to feed.")
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
    if what == "shape" and all(_ranks_agree(expected[p], found[p]) for p in places):
        remedy = (
            "Pad them, or leave a smaller last batch out (`drop_last=True` of a "
            "DataLoader)."
        )
    return UnsupportedElementError(
        f"element {number} (from 0) has {'; '.join(texts) or 'another structure'}: a "
        f"device takes elements of one {what}. {remedy}"
    )


def _ranks_agree(form: str, other: str) -> bool:
    return form.count(",") == other.count(",")


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
