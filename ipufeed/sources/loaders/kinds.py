"""Recognises a loader's framework, and starts passes over the loader.

    kind                                     an element       a pass
    torch.utils.data.DataLoader              a batch          iter()
    grain DataLoader, MapDataset, IterDataset   as mapped     iter()
    torchdata.nodes Loader                   as mapped        iter()
    spdl Pipeline                            as piped         once, in auto_stop()
    ray.data Dataset, DataIterator           a batch          iter_batches()
    datasets (Hugging Face)                  a row            iter()
    keras.utils.PyDataset                    a batch          by index, as fit() does
    tf_keras.utils.Sequence                  a batch          by index, as fit() does
    anything else with __iter__              as returned      iter()
    an own class with __getitem__            as returned      by index, to its __len__ or
                                                              an IndexError

An object is recognised by the modules of its classes, without importing anything. A new
release of a framework that keeps its public names is still recognised.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ipufeed.sources.loaders.batch_steps import (
    grain_batch,
    has_class,
    nodes_batch,
    size_of,
)
from ipufeed.sources.loaders.passes import (
    closing,
    keras_pass,
    pass_by_index,
    plain_pass,
    sequence_pass,
)

if TYPE_CHECKING:  # leaves imports numpy, which --help does without
    from ipufeed.sources.loaders.leaves import Element

# Any: the classes of frameworks that may not be installed.
Loader = Any

# Data in memory, not a loader: iterating it would measure nothing.
DATA = (str, bytes, bytearray, memoryview, list, tuple, dict, set, frozenset, range)
NO_LOADERS = (*DATA, type, Mapping)  # a mapping, such as a file of HDF5, gives its keys
# Iterables that are refused, by module and class, and the reason.
REFUSED = {
    ("torch", "Tensor"): "a tensor",
    ("numpy", "ndarray"): "an array",
    ("numpy", "generic"): "a number",
    ("jax", "Array"): "an array",
    ("jaxlib", "ArrayImpl"): "an array",
    ("pandas", "DataFrame"): "a table",
    ("polars", "DataFrame"): "a table",
    ("pyarrow", "Table"): "a table",
    ("pyarrow", "RecordBatch"): "a table",
}
# The modules of iterators, which iter() does not start again.
SPENT = ("builtins", "itertools")
# What gives its data by a method, by module and class.
METHODS = {
    ("pyarrow", "Dataset"): "to_batches()",
    ("pyarrow", "Scanner"): "to_batches()",
    ("pyarrow.parquet", "ParquetFile"): "iter_batches()",
    ("polars", "LazyFrame"): "collect().iter_slices(10_000)",
    ("fastai", "DataLoaders"): "train",
}


# Batch samplers of torch and accelerate whose batches have all `batch_size` samples, but
# for the last one; others have batches of other sizes.
EVEN_SAMPLERS = ("BatchSampler", "BatchSamplerShard")
# Columns of lists in datasets of Hugging Face; Sequence is of releases before 4.
HF_LISTS = ("List", "LargeList", "Sequence")


@dataclass(frozen=True)
class Kind:
    """The kind of a loader.

    Attributes:
        name: `torch DataLoader`, `grain IterDataset`, `generator`, ...
        open: Starts a pass: returns a context manager of an iterator, whose exit stops the
            pass's threads and processes.
        passes: Whether a second pass is possible; False for a generator or an iterator.
        batch: The source of its batches as text: `batch_size=32`; "" if the framework
            always batches; None if unknown.
        size: The elements of a full batch; None if unknown.
        in_lists: Whether a table of one row is a batch, in the lists of its columns.
        collects: Whether an element that is a list is one of samples.
    """

    name: str
    open: Callable[[], contextlib.AbstractContextManager[Iterator[Element]]]
    passes: bool
    batch: str | None = None
    size: int | None = None
    in_lists: bool = False
    collects: bool = False


def kind_of(source: Loader) -> Kind | None:
    """Returns the kind of a loader, or None for another object."""
    if isinstance(source, Remade):
        return source.kind
    if isinstance(source, NO_LOADERS) or _is_tensorflow(source) or _is_data(source):
        return None
    for recognise in (
        *(_torch_kind, _nodes_kind, _spdl_kind, _ray_kind),
        *(_keras_kind, _datasets_kind, _grain_kind),
    ):
        kind = recognise(source)
        if kind is not None:
            return kind
    if not hasattr(type(source), "__iter__"):
        if not _has_indices(source):
            return None
        begin = pass_by_index if hasattr(type(source), "__len__") else plain_pass
        return Kind(_name_of(source), lambda: begin(source), passes=True)
    once = hasattr(type(source), "__next__")
    return Kind(_name_of(source), lambda: plain_pass(source), passes=not once)


def why_not(source: object) -> str | None:
    """Returns how to make a loader of an object that can be one, or None."""
    if _is_torch_dataset(source):
        return (
            "It is a torch Dataset, which is read by index: give the "
            "torch.utils.data.DataLoader that training makes of it."
        )
    for (package, name), what in REFUSED.items():
        if has_class(source, package, name):
            return (
                f"It is {what} in memory: give the loader that makes batches of it, or "
                "tf.data.Dataset.from_tensor_slices of it."
            )
    for (package, name), method in METHODS.items():
        if has_class(source, package, name):
            return f"Give its `{method}`, or a function that returns it."
    if hasattr(type(source), "train_dataloader"):  # a DataModule of Lightning
        return "Give its `train_dataloader()`, after its `setup()`."
    held = _loaders_in(source)
    if held:
        return f"It holds loaders: give one of them, such as that at [{held[0]!r}]."
    if isinstance(source, Mapping) and not isinstance(source, dict):
        return (
            "It is a mapping, of which a loop gets the keys: give a generator function "
            "that yields batches of its values."
        )
    if hasattr(type(source), "__aiter__"):
        return "It is asynchronous: give what a `for` loop without `async` reads."
    is_queue = hasattr(type(source), "get") and not hasattr(source, "__getitem__")
    if is_queue:
        return "Give a generator function that yields what its `get()` returns."
    return None


def _loaders_in(source: object) -> list[Any]:
    """Returns the keys or indices of the loaders in a dict, a list or a tuple."""
    items: list[tuple[Any, Any]] = []
    if isinstance(source, dict):
        items = list(source.items())
    elif isinstance(source, Mapping):
        with contextlib.suppress(Exception):  # of a file that has been closed
            items = list(itertools.islice(source.items(), 8))  # each may be read
    elif isinstance(source, (list, tuple)):
        items = list(enumerate(source))
    return [
        key
        for key, value in items
        if has_class(value, "tensorflow", "DatasetV2") or kind_of(value) is not None
    ]


def _is_torch_dataset(source: object) -> bool:
    """Whether it is a dataset of PyTorch that only its DataLoader iterates."""
    return has_class(source, "torch.utils.data", "Dataset") and not hasattr(
        type(source), "__iter__"
    )


def _has_indices(source: object) -> bool:
    """Whether `for` reads it by index: a sequence without `__iter__`, no mapping."""
    return (
        hasattr(type(source), "__getitem__")
        and not hasattr(type(source), "keys")
        and not _is_torch_dataset(source)
    )


def _is_tensorflow(source: object) -> bool:
    """Whether its class is of TensorFlow or ipufeed: a dataset, an iterator, a queue."""
    return type(source).__module__.split(".")[0] in ("tensorflow", "ipufeed")


class Remade:
    """Several passes over loaders that can be read once, made by a function.

    Args:
        make: The function; each pass but the first calls it.
        first: The loader of the first pass.
    """

    def __init__(self, make: Callable[[], Loader], first: Loader) -> None:
        self._make = make
        self._first = self._last = first
        kind = kind_of(first)
        if kind is None:
            raise TypeError(f"`first` must be a loader, got {type(first).__name__}.")
        self.kind = replace(kind, open=self._open, passes=True)

    def _open(self) -> contextlib.AbstractContextManager[Iterator[Element]]:
        source, self._first = self._first, None
        if source is None:
            source = self._make()
            if source is self._last and type(source).__module__ in SPENT:
                raise ValueError(
                    f"the function must make a new {type(source).__name__} at each call, "
                    "got the same one again, which has been read"
                )
        kind = kind_of(source)
        if kind is None:
            raise TypeError("the function must return a loader each time it is called")
        self._last = source
        if inspect.isgenerator(source):  # nothing else reads it
            return closing(source)
        return kind.open()


def as_loader(source: object) -> object:
    """Returns a loader that calls a generator function for each pass; else the source."""
    if inspect.isgeneratorfunction(source):
        return Remade(source, source())
    return source


def is_known(source: Loader) -> bool:
    """Whether it is of a framework's loader class, not any object with `__iter__`."""
    kind = kind_of(source)
    return kind is not None and (
        kind.name.startswith(
            ("torch DataLoader", "torchdata Loader", "ray.data", "keras", "tf_keras")
        )
        or kind.name.split()[0] in ("grain", "datasets", "spdl", "webdataset")
    )


def _is_data(source: object) -> bool:
    return any(has_class(source, *names) for names in (*REFUSED, *METHODS))


def _name_of(source: object) -> str:
    """`package Class`, or the class alone if the package is not a known framework."""
    kind = type(source)
    package = kind.__module__.split(".")[0]
    known = ("torch", "grain", "datasets", "nvidia", "webdataset", "petastorm", "spdl")
    return f"{package} {kind.__name__}" if package in known else kind.__name__


def _torch_kind(source: Loader) -> Kind | None:
    """Recognises a DataLoader; its workers end with the iterator that started them."""
    if not has_class(source, "torch.utils.data", "DataLoader"):
        return None
    batch, size = None, source.batch_size
    sampler = getattr(source, "sampler", None)
    if size is not None:
        batch = f"batch_size={size}"
    elif source.batch_sampler is not None:
        batch = "batch_sampler"
        if type(source.batch_sampler).__name__ in EVEN_SAMPLERS:
            size = size_of(source.batch_sampler)
    elif has_class(sampler, "torch.utils.data", "BatchSampler"):  # loads in bulk
        batch, size = "BatchSampler", size_of(sampler)
    return Kind(
        "torch DataLoader",
        lambda: plain_pass(source),
        passes=True,
        batch=batch,
        size=size,
    )


def _nodes_kind(source: Loader) -> Kind | None:
    """Recognises nodes of torchdata, and their Loader, which starts them again."""
    is_loader = has_class(source, "torchdata.nodes", "Loader")
    if not is_loader and not has_class(source, "torchdata.nodes", "BaseNode"):
        return None
    batch = nodes_batch(source.root if is_loader else source)
    size = size_of(batch)
    return Kind(
        f"torchdata {type(source).__name__}",
        lambda: plain_pass(source),
        passes=is_loader,
        batch=None if size is None else f"Batcher of {size}",
        size=size,
    )


def _spdl_kind(source: Loader) -> Kind | None:
    """Recognises a Pipeline: it runs once, in threads that have to be stopped.

    Its `aggregate` makes lists of samples, of a size that the pipeline does not show.
    """
    if has_class(source, "spdl.dataloader", "DataLoader"):
        size = size_of(source)
        batch = None if size is None else f"batch_size={size}"
        return Kind("spdl DataLoader", lambda: plain_pass(source), True, batch, size)
    if not has_class(source, "spdl", "Pipeline"):
        return None

    @contextlib.contextmanager
    def run() -> Iterator[Iterator[Element]]:
        with source.auto_stop():
            yield iter(source)

    return Kind("spdl Pipeline", run, passes=False, collects=True)


def _ray_kind(source: Loader) -> Kind | None:
    """Ray's datasets return batches from a method, of 256 rows by default."""
    for name in ("Dataset", "DataIterator"):
        if has_class(source, "ray.data", name):
            return Kind(
                f"ray.data {name}",
                lambda: plain_pass(source.iter_batches()),
                passes=True,
                batch="iter_batches()",
            )
    return None


def _datasets_kind(source: Loader) -> Kind | None:
    """Recognises a dataset of Hugging Face; if all its columns are lists, it batches.

    `.batch(n)` leaves no other trace. Columns of tokens alone are lists, too.
    """
    for name in ("Dataset", "IterableDataset"):
        if has_class(source, "datasets", name):
            break
    else:
        return None
    features = getattr(source, "features", None)
    columns = [type(each).__name__ for each in (features or {}).values()]
    batches = bool(columns) and all(each in HF_LISTS for each in columns)
    is_unknown = features is None  # of a stream; a row in a table shows it
    return Kind(
        _name_of(source),
        lambda: plain_pass(source),
        passes=True,
        batch="every column is a list" if batches else None,
        in_lists=batches or is_unknown,
    )


def _grain_kind(source: Loader) -> Kind | None:
    """Recognises what is of Grain, whose last step that batches is the batch."""
    if type(source).__module__.partition(".")[0] != "grain":
        return None
    if not hasattr(type(source), "__iter__") or hasattr(type(source), "__next__"):
        return None
    batch = grain_batch(source)
    return Kind(
        _name_of(source),
        lambda: plain_pass(source),
        passes=True,
        batch=None if batch is None else type(batch).__name__.strip("_"),
        size=size_of(batch),
    )


def _keras_kind(source: Loader) -> Kind | None:
    """Recognises a PyDataset: batches by index; Keras's own adapter runs its workers.

    Of a Sequence of tf_keras its fit() knows the workers, and not the Sequence.
    """
    if has_class(source, "tf_keras", "Sequence"):
        return Kind("tf_keras Sequence", lambda: sequence_pass(source), True, batch="")
    if not (
        has_class(source, "keras", "PyDataset")
        or has_class(source, "keras", "Sequence")
    ):
        return None
    return Kind("keras PyDataset", lambda: keras_pass(source), passes=True, batch="")
