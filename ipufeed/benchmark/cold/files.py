"""Finds the files that a dataset reads.

They are the string constants of the serialised pipeline (names and patterns of files) and
the files that datasets of `ipufeed.sources` read in Python; or only the patterns that the
user gave.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator

import tensorflow as tf
from tensorflow.python.eager import context

from ipufeed.benchmark.graph.step_functions import graph_nodes
from ipufeed.sources.files import FILES_OF
from ipufeed.tf_types import Dataset

MAGIC = frozenset("*?[")
# Longer constants are data, not paths.
MOST_CHARACTERS = 4096


def dataset_files(dataset: Dataset, patterns: Iterable[str] = ()) -> list[str]:
    """Returns the real paths of the regular files that the dataset seems to read, sorted.

    Args:
        dataset: A tf.data.Dataset.
        patterns: Names or patterns of the files; then the dataset is not searched.

    Raises:
        tf.errors.OpError: The pipeline cannot be serialised.
    """
    patterns = list(patterns)
    names = set(patterns)
    if not patterns:
        names = set(_graph_texts(dataset)) | _files_of_sources(dataset)
    found: set[str] = set()
    for name in names:
        if os.path.isfile(name):
            found.add(os.path.realpath(name))
        elif MAGIC & set(name) and (patterns or "/" in name):
            # A constant with a star and without a slash is rarely a pattern of files.
            found.update(
                os.path.realpath(path)
                for path in glob.iglob(name, recursive=True)
                if os.path.isfile(path)
            )
    return sorted(found)


def _files_of_sources(dataset: Dataset) -> set[str]:
    """Returns the files that datasets of ipufeed.sources read in Python."""
    found: set[str] = set()
    steps = [dataset]
    while steps:
        step = steps.pop()
        found.update(getattr(step, FILES_OF, ()))
        # The inputs of a DatasetV1Adapter are not those of what it wraps.
        steps += [step._dataset] if hasattr(step, "_dataset") else step._inputs()
    return found


def _graph_texts(dataset: Dataset) -> Iterator[str]:
    """Yields the strings in the constants of a dataset's graph and its functions."""
    for node in graph_nodes(dataset):
        if node.op != "Const" or node.attr["dtype"].type != tf.string.as_datatype_enum:
            continue
        with context.eager_mode():  # tf.make_ndarray reads no strings in packed form
            tensor = node.attr["value"].tensor.SerializeToString()
            values = tf.reshape(tf.io.parse_tensor(tensor, tf.string), [-1]).numpy()
        for value in values:
            if 0 < len(value) <= MOST_CHARACTERS and b"\0" not in value:
                yield os.fsdecode(value)
