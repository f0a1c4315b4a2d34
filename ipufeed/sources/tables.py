"""The common part of Parquet and Arrow IPC: chunks of rows, read in parallel.

    chunks --read (Python, once per chunk)--> arrays --columns--> tensors --batch--> batches
    0..n-1   in parallel, GIL released                 no copy     native    slices

A chunk is a row group or a record batch. Python is called once for each chunk, not for a
row or batch: TensorFlow slices the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipufeed.checks import as_int
from ipufeed.errors import SourceError
from ipufeed.sources.columns import NULLS, Array, Column, text_tensor, to_arrays
from ipufeed.sources.files import FILES_OF, message_of
from ipufeed.tf_types import Nest, Tensor

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file.

    Attributes:
        path: The file.
        number: Number of the row group or record batch in it.
    """

    path: str
    number: int


@dataclass(frozen=True)
class Format:
    """The differences between the formats.

    Attributes:
        chunk: Name of a chunk: `row group`.
        read: (chunk, column names) -> an Arrow array for each.
    """

    chunk: str
    read: Callable[[Chunk, list[str]], list[pa.Array | pa.ChunkedArray]]


def check_options(batch_size: int | None, nulls: str) -> int | None:
    """Checks the options, and returns the batch size as an int.

    Raises:
        TypeError: `batch_size` is not an int.
        ValueError: It is below 1, or `nulls` is not a policy.
    """
    if not isinstance(nulls, str) or nulls not in NULLS:
        raise ValueError(f"`nulls` must be 'error', 'drop' or 'zero', got {nulls!r}.")
    if batch_size is None:
        return None
    size = as_int("batch_size", batch_size, " or None")
    if not 1 <= size <= 2**31:
        raise ValueError(f"`batch_size` must be in [1, 2**31], got {batch_size!r}.")
    return size


def chunks_of(counts: Iterable[tuple[str, int]]) -> list[Chunk]:
    """Returns the chunks of files, given as (path, number of chunks).

    Raises:
        SourceError: There are none.
    """
    files = list(counts)
    chunks = [Chunk(path, number) for path, count in files for number in range(count)]
    if not chunks:
        raise SourceError(f"{files[0][0]} has no rows: there is nothing to read.")
    return chunks


def _read_chunk(
    chunk: Chunk, columns: list[Column], kind: Format, nulls: str
) -> list[Array]:
    """Reads a chunk into arrays; errors become SourceErrors with the place."""
    where = f"{chunk.path}, {kind.chunk} {chunk.number}"
    try:
        data = kind.read(chunk, [column.name for column in columns])
    except SourceError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        # pyarrow's errors are of these types, without file and place. Not `from error`:
        # TensorFlow's message would have both tracebacks.
        raise SourceError(
            f"{where} cannot be read: {message_of(error)}. Copy or write the file again."
        ) from None
    return to_arrays(columns, data, nulls, where)


def table_dataset(
    chunks: list[Chunk],
    columns: list[Column],
    kind: Format,
    *,
    batch_size: int | None,
    drop_remainder: bool,
    nulls: str,
    calls: int,
    rows: int | None,
) -> tf.data.Dataset:
    """Returns a dataset of {column: tensor [rows, ...]} of the chunks, in their order.

    `rows` is the number of rows of all chunks, if it is known: then the dataset has a
    cardinality.

    Raises (while it is iterated):
        tf.errors.InvalidArgumentError: With the message of a SourceError: nulls, a damaged
            chunk.
    """
    import tensorflow as tf

    def read(number: Tensor) -> list[Array]:
        return _read_chunk(chunks[int(number)], columns, kind, nulls)

    types = []
    for column in columns:
        types += (
            [tf.string, tf.int64] if column.is_text else [tf.as_dtype(column.dtype)]
        )

    def load(number: Tensor) -> Nest:
        # Stateful, by default: a rewrite must not read only once what each epoch reads.
        return tuple(tf.numpy_function(read, [number], types))

    def name_columns(*arrays: Tensor) -> Nest:
        left, out = list(arrays), {}
        for column in columns:
            if column.is_text:
                text, ends = left.pop(0), left.pop(0)
                tensor = text_tensor(
                    tf.ensure_shape(text, []), tf.ensure_shape(ends, [None])
                )
            else:
                tensor = left.pop(0)
            out[column.name] = tf.ensure_shape(tensor, [None, *column.inner])
        return out

    dataset = tf.data.Dataset.range(len(chunks), name="chunks")
    setattr(dataset, FILES_OF, sorted({chunk.path for chunk in chunks}))
    dataset = dataset.map(
        load, num_parallel_calls=calls, deterministic=True, name="read"
    )
    text = any(column.is_text for column in columns)
    dataset = dataset.map(
        name_columns,
        num_parallel_calls=calls if text else None,
        deterministic=True if text else None,
        name="columns",
    )
    if batch_size is not None:
        dataset = dataset.rebatch(batch_size, drop_remainder)
        if rows is not None and nulls != "drop":
            batches, rest = divmod(rows, batch_size)
            dataset = dataset.apply(
                tf.data.experimental.assert_cardinality(
                    batches + (1 if rest and not drop_remainder else 0)
                )
            )
    return dataset
