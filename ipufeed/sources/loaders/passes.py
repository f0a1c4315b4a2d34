"""Passes over loaders: each is a context manager of an iterator, which it closes.

plain_pass     by iter(), as a `for` loop
pass_by_index  from 0 to the loader's length
keras_pass     as fit() reads a PyDataset
sequence_pass  as fit() of tf_keras reads a Sequence, without workers
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # leaves imports numpy, which --help does without
    from ipufeed.sources.loaders.leaves import Element

# Any: the classes of frameworks that may not be installed.
Loader = Any


@contextlib.contextmanager
def plain_pass(source: Loader) -> Iterator[Iterator[Element]]:
    """Makes a pass by iter(), and closes a generator at its end."""
    iterator = iter(source)
    if iterator is source or not callable(getattr(iterator, "close", None)):
        yield iterator
        return
    with closing(iterator):
        yield iterator


@contextlib.contextmanager
def closing(iterator: Any) -> Iterator[Iterator[Element]]:
    """Closes an iterator after its pass: the `finally` blocks of a generator run.

    A generator with a bare `except:` around its `yield` cannot be closed, and is left as it
    is, as after a `break` of a program's loop.
    """
    try:
        yield iterator
    finally:
        try:
            iterator.close()
        except RuntimeError as error:
            if "ignored GeneratorExit" not in str(error):
                raise


@contextlib.contextmanager
def pass_by_index(source: Loader) -> Iterator[Iterator[Element]]:
    """Makes a pass by index; an IndexError before the end is an error of the source."""
    yield (_at(source, index) for index in range(len(source)))


def _at(source: Loader, index: int) -> Element:
    try:
        return source[index]
    except IndexError as error:
        raise IndexError(
            f"{error}, at [{index}] of {type(source).__name__}, whose __len__ returns "
            f"{len(source)}: it must return the number of elements"
        ).with_traceback(error.__traceback__) from error


@contextlib.contextmanager
def keras_pass(source: Loader) -> Iterator[Iterator[Element]]:
    """One epoch with the dataset's number of workers, through fit()'s own adapter."""
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    adapter = PyDatasetAdapter(source)
    adapter.on_epoch_begin()
    try:
        yield iter(adapter.get_numpy_iterator())
    finally:
        adapter.on_epoch_end()


@contextlib.contextmanager
def sequence_pass(source: Loader) -> Iterator[Iterator[Element]]:
    """Makes a pass by index, after which the Sequence prepares the next one."""
    with pass_by_index(source) as iterator:
        try:
            yield iterator
        finally:
            source.on_epoch_end()
