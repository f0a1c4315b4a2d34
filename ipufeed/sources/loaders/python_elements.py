"""A dataset whose elements Python reads, at microseconds for each.

    GetNext (native) --> _on_read --> next() of the pass --> where its arrays are
                     <-- copies them (ipufeed/cc/data/python_dataset.h)

tf.data.Dataset.from_generator calls two Python functions by ops for an element, which
takes some tenths of a millisecond. An element is read when it is requested, on the thread
that requests it, so that the time in Python is the reader's own.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipufeed.once import once
from ipufeed.process_state import STATE
from ipufeed.sources.loaders.failure import LoaderError
from ipufeed.tf_types import Dataset, Spec

Array = NDArray[Any]
Open = Callable[[], Iterator[Sequence[Array] | Exception]]

# ReadCall::Action and ReadCall::Answer.
_CLOSE = 1
_ELEMENT, _END = -1, -2
# The status codes (of absl) of exceptions, as those of a tf.py_function.
_UNKNOWN = 2
_GAP = b" [...] "
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (TypeError, 3),
    (ValueError, 3),
    (MemoryError, 8),
    (NotImplementedError, 12),
)


class _ReadCall(ctypes.Structure):
    """As ReadCall in ipufeed/cc/data/python_dataset.h."""

    _fields_ = (
        ("source", ctypes.c_int64),
        ("pass_", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("message", ctypes.c_void_p),
        ("components", ctypes.c_int32),
        ("message_size", ctypes.c_int32),
    )


class _Pass:
    """One iteration, which holds the arrays of its last element."""

    def __init__(self, source: _Source, call: _ReadCall) -> None:
        self.source = source
        self.iterator = source.open()
        self.places = (ctypes.c_void_p * call.components).from_address(call.data)
        self.arrays: list[Array] = []

    def read(self) -> int:
        """Notes where the next element is; returns the answer for the native side."""
        try:
            element = next(self.iterator)
        except StopIteration:
            self.arrays = []
            return _END
        if isinstance(element, Exception):
            raise element
        arrays = [np.ascontiguousarray(each) for each in element]
        if [each.nbytes for each in arrays] != self.source.sizes:
            raise ValueError(
                f"an element must have components of {self.source.sizes} bytes, got "
                f"{[each.nbytes for each in arrays]}."
            )
        for place, each in enumerate(arrays):
            self.places[place] = _address(each)
        self.arrays = arrays
        return _ELEMENT

    def close(self) -> None:
        """Ends the iterator if it is a generator: its `finally` blocks run."""
        close = getattr(self.iterator, "close", None)
        if close is not None:
            close()


def _address(array: Array) -> int:
    """Returns where an array's memory is."""
    # A seventh of the time of array.ctypes.data; the kinds are those with a buffer.
    if array.flags.writeable and array.nbytes and array.dtype.kind in "biuf":
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    return int(array.ctypes.data)


class _Source:
    """What opens the passes of a dataset, and the bytes of its components."""

    def __init__(self, open_pass: Open, sizes: list[int]) -> None:
        self.open = open_pass
        self.sizes = sizes


_numbers = itertools.count()
# What can read a dataset keeps its source: its tensor, and the graphs that it is in.
_sources: weakref.WeakValueDictionary[int, _Source] = weakref.WeakValueDictionary()
_passes: dict[int, _Pass] = {}


@STATE.part("python elements")
def _forget() -> None:
    _sources.clear()
    _passes.clear()


def python_elements(open_pass: Open, spec: Spec) -> Dataset:
    """Returns a dataset of the elements that Python's iterators give.

    Args:
        open_pass: Returns the iterator of a pass. Its elements are lists of arrays, in
            the order of tf.nest.flatten(spec), each of the spec's dtype and shape, or
            exceptions, after each of which it goes on. An iterator with `close` (a
            generator) is closed at the end of its pass.
        spec: A nest of tf.TensorSpec of numbers, of fully defined shapes.

    Returns:
        The dataset, of unknown cardinality; the arrays are copied. Iterations can begin
        while it exists, or a graph that it was made in.

    Errors: an exception of an iterator becomes the tf.errors.OpError that it becomes in a
    tf.py_function, with its type, text and line.

    Threads: those that iterate the dataset, never the main one. The calls of an iterator
    are one at a time.
    """
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    from ipufeed import _native

    specs = tf.nest.flatten(spec)
    number = next(_numbers)
    sizes = [each.shape.num_elements() * each.dtype.size for each in specs]

    class PythonDataset(dataset_ops.DatasetSource):  # type: ignore[misc]
        """See ipufeed/cc/data/python_dataset.h."""

        def __init__(self) -> None:
            variant = _native.load().ipufeed_python_dataset(
                source=number,
                output_types=[each.dtype for each in specs],
                output_shapes=[each.shape for each in specs],
            )
            super().__init__(variant)

        @property
        def element_spec(self) -> Spec:
            return spec

    _connect()
    source = _sources[number] = _Source(open_pass, sizes)
    dataset: Dataset = PythonDataset()
    for owner in _owners(dataset._variant_tensor):
        owner._ipufeed_sources = [*getattr(owner, "_ipufeed_sources", ()), source]
    return dataset


def _owners(variant: Any) -> list[Any]:
    """Returns what exists as long as something can make an iterator of a dataset.

    In a graph it is not the dataset: its operation makes one in each run. A function's
    graph may be called from others than the one around it, and is kept by its function
    alone.

    Args:
        variant: The dataset's tensor.
    """
    import tensorflow as tf

    if tf.executing_eagerly():
        return [variant]
    graphs = [variant.graph]
    while (outer := _graph_around(graphs[-1])) is not None:
        graphs.append(outer)
    with tf.init_scope():
        eager = tf.executing_eagerly()
    # Around a function that is traced eagerly is a graph that never ends.
    return graphs[:-1] if eager and len(graphs) > 1 else graphs


def _graph_around(graph: Any) -> Any:
    for name in ("outer_graph", "_outer_graph"):  # the second is that of a Defun
        outer = getattr(graph, name, None)
        if outer is not None:
            return outer
    return None


@once
def _connect() -> None:
    """Registers this module's callback in the native core."""
    from ipufeed import _native

    _native.load()
    _native.entry().ipufeed_set_on_read(_callback)


def _answer(action: int, call: _ReadCall) -> int:
    if action == _CLOSE:
        ended = _passes.pop(call.pass_, None)
        if ended is not None:
            ended.close()
        return _END
    found = _passes.get(call.pass_)
    if found is None:
        source = _sources.get(call.source)
        if source is None:
            raise ValueError(
                "the dataset of a Python iterator does not exist any more: keep it while "
                "it is iterated."
            )
        found = _passes[call.pass_] = _Pass(source, call)
    return found.read()


def _on_read(action: int, pointer: Any) -> int:
    call = pointer.contents
    try:
        return _answer(action, call)
    except BaseException as error:  # sys.exit() of an iterator, too
        if action == _CLOSE:
            raise  # ctypes gives it to sys.unraisablehook
        failed = LoaderError(error)
        text = _shortened(f"{failed.kind}: {failed.message}", call.message_size - 1)
        ctypes.memmove(call.message, text, len(text))
        return next(
            (code for kind, code in _CODES if isinstance(error, kind)), _UNKNOWN
        )


def _shortened(text: str, size: int) -> bytes:
    """Returns a text as a string of C, without its middle if it has more bytes.

    Its end has the line, and of an exception in a process of the loader the cause.
    """
    found = text.replace("\0", "\\0").encode(errors="backslashreplace")
    if len(found) > size:
        half = (size - len(_GAP)) // 2
        found = found[:half] + _GAP + found[-half:]
        found = found.decode(errors="ignore").encode()
    return found + b"\0"


_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.POINTER(_ReadCall))(
    _on_read
)
