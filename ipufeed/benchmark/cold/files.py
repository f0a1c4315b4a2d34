"""Which files a dataset reads, as far as it can be seen from outside.

Three places are looked at: the text constants of the serialised pipeline (names and
patterns of files), what the sources of `ipufeed.sources` below it read in Python, and the
patterns that the user gave.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator

from ipufeed.benchmark.graph.dataset_graph import graph_nodes
from ipufeed.sources.files import FILES_OF
from ipufeed.tf_types import Dataset

MAGIC = frozenset("*?[")
# A path is no longer; constants of megabytes are data.
MOST_CHARACTERS = 4096


def dataset_files(dataset: Dataset, patterns: Iterable[str] = ()) -> list[str]:
    """Real paths of the regular files that the dataset seems to read, sorted.

    Args:
        dataset: A tf.data.Dataset.
        patterns: Names or patterns of further files; with them nothing else is looked at.

    Raises:
        tf.errors.OpError: The pipeline cannot be serialised.
    """
    patterns = list(patterns)
    names = set(patterns)
    if not patterns:
        names = set(graph_texts(dataset)) | files_of_sources(dataset)
    found: set[str] = set()
    for name in names:
        if os.path.isfile(name):
            found.add(os.path.realpath(name))
        elif MAGIC & set(name) and (patterns or "/" in name):
            # A star in a constant without a slash is rarely the name of a file.
            found.update(
                os.path.realpath(path)
                for path in glob.iglob(name, recursive=True)
                if os.path.isfile(path)
            )
    return sorted(found)


def files_of_sources(dataset: Dataset) -> set[str]:
    """Files that sources of ours read in Python, where no graph shows them."""
    found: set[str] = set()
    steps = [dataset]
    while steps:
        step = steps.pop()
        found.update(getattr(step, FILES_OF, ()))
        # The inputs of a DatasetV1Adapter are not those of what it wraps.
        steps += [step._dataset] if hasattr(step, "_dataset") else step._inputs()
    return found


def graph_texts(dataset: Dataset) -> Iterator[str]:
    """The texts in the constants of a dataset's graph and its functions."""
    import tensorflow as tf

    for node in graph_nodes(dataset):
        if node.op != "Const" or node.attr["dtype"].type != tf.string.as_datatype_enum:
            continue
        tensor = node.attr["value"].tensor
        values = tensor.string_val or packed_texts(tensor.tensor_content)
        for value in values:
            if 0 < len(value) <= MOST_CHARACTERS and b"\0" not in value:
                yield os.fsdecode(value)


def packed_texts(content: bytes) -> list[bytes]:
    """The texts of a tensor's packed form: all lengths as varints, then all bytes.

    NumPy's reader of such constants, tf.make_ndarray, takes numbers only.
    """
    lengths, at, total = [], 0, 0
    # The lengths end where the bytes that they add up to are what is left.
    while at + total < len(content):
        length = shift = 0
        while True:
            byte = content[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or at == len(content):
                break
        lengths.append(length)
        total += length
    texts = []
    for length in lengths:
        texts.append(content[at : at + length])
        at += length
    return texts
