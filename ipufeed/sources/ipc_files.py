"""Arrow IPC files as a dataset: record batches, mapped into memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ipufeed.checks import flags_checked
from ipufeed.errors import DamagedFileError, SourceError
from ipufeed.sources.columns import choose_same_columns
from ipufeed.sources.files import Files, list_files, message_of, parallelism, shard_of
from ipufeed.sources.tables import (
    Chunk,
    Format,
    check_options,
    chunks_of,
    table_dataset,
)

if TYPE_CHECKING:
    import tensorflow as tf

STREAM_START = b"\xff\xff\xff\xff"


class _Readers(threading.local):
    """The open files of a thread: a reader is not thread-safe."""

    def __init__(self) -> None:
        self._files: dict[str, pa.ipc.RecordBatchFileReader] = {}

    def of(self, path: str, fields: list[int]) -> pa.ipc.RecordBatchFileReader:
        """Returns the file's reader, of these columns."""
        if path not in self._files:
            self._files[path] = _open_file(path, fields)
        return self._files[path]


@flags_checked
def arrow_ipc(
    files: Files,
    *,
    columns: Sequence[str] | None = None,
    batch_size: int | None = 1024,
    drop_remainder: bool = False,
    nulls: str = "error",
    shard: tuple[int, int] | None = None,
    parallel: int | None = None,
) -> tf.data.Dataset:
    """Returns batches of rows of Arrow IPC (Feather 2) files, as {column: tensor}.

    The files are mapped into memory: columns that are not selected are never read, and
    numbers without nulls reach TensorFlow with at most one copy (docs/sources.md has when
    with none). As with any mapped file, do not truncate them while the dataset is alive.

    Args:
        files: A path, a pattern, or a list of them, all of one schema.
        columns: Names of the columns to read. Default: all.
        batch_size: Rows of an element, across record batches and files; None gives a record
            batch as it is. Default: 1024.
        drop_remainder: Leave out a last batch that is shorter. Default: False.
        nulls: `error` refuses them when they are read; `drop` leaves out rows that hold
            one; `zero` reads 0, False or an empty string. Default: `error`.
        shard: (count, index): only every count-th record batch, from number index on.
            Default: all.
        parallel: Record batches that are read at a time. Default: AUTOTUNE.

    Returns:
        A tf.data.Dataset of dicts, as that of parquet().

    Raises:
        TypeError, ValueError: An argument is of another type, or out of range.
        SourceError: A file does not exist, is a stream or has another schema, a column does
            not exist or has no dense tensor, or there are fewer batches than shards.
        DamagedFileError: A file is not an Arrow IPC file, or its end is missing.
    """
    batch_size = check_options(batch_size, nulls)
    calls = parallelism(parallel)
    paths = list_files(files, "Arrow IPC")
    readers = _Readers()
    opened = {path: _open_file(path) for path in paths}
    schemas = {path: file.schema for path, file in opened.items()}
    chosen = choose_same_columns(list(schemas.items()), columns)
    fields = {
        path: [schema.get_field_index(column.name) for column in chosen]
        for path, schema in schemas.items()
    }
    chunks = shard_of(
        chunks_of((path, file.num_record_batches) for path, file in opened.items()),
        shard,
        "record batches",
        "Write smaller ones (max_chunksize of RecordBatchFileWriter.write_table).",
    )

    def read(chunk: Chunk, names: list[str]) -> list[pa.Array]:
        # In a compressed file, only these columns are decompressed.
        file = readers.of(chunk.path, fields[chunk.path])
        batch = file.get_batch(chunk.number)
        return [batch.column(name) for name in names]

    return table_dataset(
        chunks,
        chosen,
        Format("record batch", read),
        batch_size=batch_size,
        drop_remainder=drop_remainder,
        nulls=nulls,
        calls=calls,
        # The rows of some of the batches are only known by decompressing them.
        rows=_count_rows(paths) if shard is None else None,
    )


def _count_rows(paths: list[str]) -> int:
    """Returns the rows of all files, from the headers of their record batches."""
    import pyarrow.dataset

    return int(pyarrow.dataset.dataset(paths, format="ipc").count_rows())


def _open_file(
    path: str, fields: list[int] | None = None
) -> pa.ipc.RecordBatchFileReader:
    """Returns a reader of the mapped file, for some of its columns or for all.

    Raises:
        SourceError: It is a stream, which has no list of its record batches.
        DamagedFileError: It is not an Arrow IPC file, or its end is missing.
    """
    try:
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        return pa.ipc.open_file(pa.memory_map(path), options=options)
    except (pa.ArrowException, OSError) as error:
        with open(path, "rb") as file:
            start = file.read(len(STREAM_START))
        if start == STREAM_START:
            raise SourceError(
                f"{path} is an Arrow IPC stream, which can only be read from its start. "
                "Write it as a file: pyarrow.ipc.new_file instead of new_stream."
            ) from error
        raise DamagedFileError(
            f"{path} is not a whole Arrow IPC file: {message_of(error)}. Copy or write it "
            "again.",
            path,
        ) from error
