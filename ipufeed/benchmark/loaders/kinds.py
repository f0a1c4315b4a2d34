"""Which framework a loader is of, and how a pass over it begins.

    kind                                     an element       a pass
    torch.utils.data.DataLoader              a batch          iter()
    grain DataLoader, MapDataset, IterDataset   as mapped     iter()
    spdl Pipeline                            as piped         once, in auto_stop()
    ray.data Dataset, DataIterator           a batch          iter_batches()
    datasets (Hugging Face)                  a row            iter()
    keras.utils.PyDataset                    a batch          by index, as fit() does
    anything else with __iter__              whatever comes   iter()

An object is recognised by the modules of its classes: nothing is imported for it. A new
release of a framework that keeps its public names keeps its kind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

# Data that a user has in memory, not a loader: to iterate it measures nothing.
DATA = (str, bytes, bytearray, memoryview, list, tuple, dict, set, frozenset, range)
# What is refused although it can be iterated, by module and class: the reason.
REFUSED = {
    ("torch", "Tensor"): "a tensor",
    ("numpy", "ndarray"): "an array",
    ("jax", "Array"): "an array",
    ("jaxlib", "ArrayImpl"): "an array",
    ("pandas", "DataFrame"): "a table",
    ("pyarrow", "Table"): "a table",
}


@dataclass(frozen=True)
class Kind:
    """What a loader is.

    Attributes:
        name: `torch DataLoader`, `grain IterDataset`, `generator`, ...
        open: Begins a pass: gives a context manager whose value is an iterator, and whose
            end stops what the pass has started.
        passes: Whether a second pass starts again; False for a generator or an iterator.
        batch: How its elements are batched, for people: `batch_size=32`; "" if they are
            batches by the framework's rule; None if it is unknown.
    """

    name: str
    open: Callable[[], contextlib.AbstractContextManager[Iterator[Any]]]
    passes: bool
    batch: str | None = None


def kind_of(source: Any) -> Kind | None:
    """The kind of a loader, or None for what is none."""
    if isinstance(source, Remade):
        return source.kind
    if isinstance(source, (*DATA, type)) or is_tensorflow(source) or is_data(source):
        return None
    for recognise in (torch_kind, spdl_kind, ray_kind, keras_kind):
        kind = recognise(source)
        if kind is not None:
            return kind
    if not hasattr(type(source), "__iter__"):
        return None
    once = iterates_itself(source)
    return Kind(name_of(source), lambda: plain(source), passes=not once)


def why_not(source: Any) -> str | None:
    """What to do with an object that is nearly a loader, or None."""
    if classes(source, "torch.utils.data", "Dataset") and not hasattr(
        type(source), "__iter__"
    ):
        return (
            "It is a torch Dataset, whose items are asked for by index: give the "
            "torch.utils.data.DataLoader that training makes of it."
        )
    for (package, name), what in REFUSED.items():
        if classes(source, package, name):
            return (
                f"It is {what} in memory: give the loader that makes batches of it, or "
                "tf.data.Dataset.from_tensor_slices of it."
            )
    return None


def classes(source: Any, package: str, name: str) -> bool:
    """Whether one of its classes is called so, in that package or one below it."""
    return any(
        kind.__name__ == name
        and (kind.__module__ == package or kind.__module__.startswith(package + "."))
        for kind in type(source).__mro__
    )


def is_tensorflow(source: Any) -> bool:
    """Whether it is TensorFlow's own, or a queue of ours: a dataset, an iterator, ..."""
    return type(source).__module__.split(".")[0] in ("tensorflow", "ipufeed")


class Remade:
    """What a function gives that can be read once, as a loader of several passes.

    Args:
        make: The function; each pass but the first calls it again.
        first: What it gave already.
    """

    def __init__(self, make: Callable[[], Any], first: Any) -> None:
        self._make = make
        self._first = first
        kind = kind_of(first)
        if kind is None:
            raise TypeError(f"`first` must be a loader, got {type(first).__name__}.")
        self.kind = replace(kind, open=self._open, passes=True)

    def _open(self) -> contextlib.AbstractContextManager[Iterator[Any]]:
        source, self._first = self._first, None
        kind = kind_of(self._make() if source is None else source)
        if kind is None:
            raise TypeError(
                "the function has given a loader once, and now something else"
            )
        return kind.open()


def is_known(source: Any) -> bool:
    """Whether it is of a framework's loader class, and not only has `__iter__`."""
    kind = kind_of(source)
    return kind is not None and (
        kind.name.startswith(("torch DataLoader", "spdl Pipeline", "ray.data", "keras"))
        or kind.name.split()[0] in ("grain", "datasets")
    )


def is_data(source: Any) -> bool:
    """Whether it is an array or a table in memory."""
    return any(classes(source, package, name) for package, name in REFUSED)


def iterates_itself(source: Any) -> bool:
    """Whether it is an iterator, so that what was read is gone."""
    return hasattr(type(source), "__next__")


def name_of(source: Any) -> str:
    """`package Class`, or the class alone for what is built in or of a dataset's file."""
    kind = type(source)
    package = kind.__module__.split(".")[0]
    known = ("torch", "grain", "datasets", "nvidia", "webdataset", "petastorm", "spdl")
    return f"{package} {kind.__name__}" if package in known else kind.__name__


@contextlib.contextmanager
def plain(source: Any) -> Iterator[Iterator[Any]]:
    """A pass by iter(); a generator is closed behind it."""
    iterator = iter(source)
    try:
        yield iterator
    finally:
        if iterator is not source:
            close = getattr(iterator, "close", None)
            if callable(close):
                close()


def torch_kind(source: Any) -> Kind | None:
    """A DataLoader; its workers end with the iterator that has started them."""
    if not classes(source, "torch.utils.data", "DataLoader"):
        return None
    size = source.batch_size
    return Kind(
        "torch DataLoader",
        lambda: plain(source),
        passes=True,
        batch=f"batch_size={size}" if size is not None else custom_batch(source),
    )


def custom_batch(source: Any) -> str | None:
    """`batch_sampler` where that makes the batches; None without any batching."""
    return "batch_sampler" if source.batch_sampler is not None else None


def spdl_kind(source: Any) -> Kind | None:
    """A Pipeline runs once, in threads of its own that have to be stopped."""
    if not classes(source, "spdl", "Pipeline"):
        return None

    @contextlib.contextmanager
    def run() -> Iterator[Iterator[Any]]:
        with source.auto_stop():
            yield iter(source)

    return Kind("spdl Pipeline", run, passes=False)


def ray_kind(source: Any) -> Kind | None:
    """Ray's datasets give batches, of 256 rows unless asked otherwise, and by a method."""
    if not (
        classes(source, "ray.data", "Dataset")
        or classes(source, "ray.data", "DataIterator")
    ):
        return None
    name = next(
        name
        for name in ("Dataset", "DataIterator")
        if classes(source, "ray.data", name)
    )
    return Kind(
        f"ray.data {name}",
        lambda: plain(source.iter_batches()),
        passes=True,
        batch="iter_batches()",
    )


def keras_kind(source: Any) -> Kind | None:
    """A PyDataset gives its batches by index; Keras' own adapter runs its workers."""
    if not (
        classes(source, "keras", "PyDataset") or classes(source, "keras", "Sequence")
    ):
        return None
    return Kind("keras PyDataset", lambda: keras_pass(source), passes=True, batch="")


@contextlib.contextmanager
def keras_pass(source: Any) -> Iterator[Iterator[Any]]:
    """One epoch, with as many workers as the dataset asks for.

    Keras 3 hands them out by `PyDatasetAdapter`, which fit() makes.
    """
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    adapter = PyDatasetAdapter(source)
    adapter.on_epoch_begin()
    try:
        yield iter(adapter.get_numpy_iterator())
    finally:
        adapter.on_epoch_end()
