"""Arrow IPC files as a dataset: record batches as they lie in the file's memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ipufeed.errors import DamagedFileError, SourceError
from ipufeed.sources.files import list_files, parallelism, said_of, shard_of

STREAM_START = b"\xff\xff\xff\xff"


def arrow_ipc(
    files: Any,
    *,
    columns: Sequence[str] | None = None,
    batch_size: int | None = 1024,
    drop_remainder: bool = False,
    nulls: str = "error",
    shard: tuple[int, int] | None = None,
    parallel: int | None = None,
) -> Any:
    """Batches of rows of Arrow IPC files (also called Feather 2), as {column: tensor}.

    The files are mapped into memory: columns that are not wanted are never read, and
    numbers without nulls reach TensorFlow with at most one copy (docs/sources.md says
    when with none). They must not be truncated while the dataset is alive, as with any
    mapped file.

    Args:
        files: A path, a pattern, or a list of them, all of one schema.
        columns: Names of the columns to read. Default: all.
        batch_size: Rows of an element, across record batches and files; None gives a
            record batch as it is. Default: 1024.
        drop_remainder: Leave out a last batch that is shorter. Default: False.
        nulls: `error` refuses them when they are read; `drop` leaves out rows that hold
            one; `zero` reads 0, False or an empty string. Default: `error`.
        shard: (count, index): only every count-th record batch, from number index on.
            Default: all.
        parallel: Record batches that are handled at a time. Default: AUTOTUNE chooses.

    Returns:
        A tf.data.Dataset of dicts, as that of parquet().

    Raises:
        TypeError, ValueError: An argument is of another kind, or out of range.
        SourceError: A file is not there, is a stream or has another schema, a column is
            not there or has no dense tensor, or there are fewer batches than shards.
        DamagedFileError: A file is not an Arrow IPC file, or its end is missing.
    """
    from ipufeed.sources import columns as arrow_columns
    from ipufeed.sources.parquet_files import different
    from ipufeed.sources.tables import Chunk, Format, check_options, table_dataset

    batch_size = check_options(batch_size, nulls)
    calls = parallelism(parallel)
    paths = list_files(files, "Arrow IPC")
    mine = threading.local()  # a reader is not made for several threads

    def reader(path: str, fields: list[int]) -> Any:
        if not hasattr(mine, "readers"):
            mine.readers = {}
        if path not in mine.readers:
            mine.readers[path] = open_file(path, fields)
        return mine.readers[path]

    chunks, chosen = [], None
    fields: dict[str, list[int]] = {}
    for path in paths:
        file = open_file(path)
        found = arrow_columns.choose_columns(file.schema, columns, path)
        if chosen is None:
            chosen = found
        elif found != chosen:
            raise SourceError(different(paths[0], chosen, path, found))
        fields[path] = [file.schema.get_field_index(column.name) for column in found]
        chunks += [Chunk(path, number) for number in range(file.num_record_batches)]
    if chosen is None or not chunks:
        raise SourceError(f"{paths[0]} has no rows: there is nothing to read.")
    chunks = shard_of(
        chunks,
        shard,
        "record batches",
        "Write smaller ones (max_chunksize of RecordBatchFileWriter.write_table).",
    )

    def read(chunk: Chunk, names: list[str]) -> list[Any]:
        # Only these columns are decompressed, where the file is compressed.
        file = reader(chunk.path, fields[chunk.path])
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
        # Of a part of the batches it is unknown without decompressing them.
        rows=count_rows(paths) if shard is None else None,
    )


def count_rows(paths: list[str]) -> int:
    """Rows of all files, from the headers of their record batches."""
    import pyarrow.dataset

    return int(pyarrow.dataset.dataset(paths, format="ipc").count_rows())


def open_file(path: str, fields: list[int] | None = None) -> Any:
    """A reader of the mapped file, for some of its columns or for all.

    Raises:
        SourceError: It is a stream, which has no list of its record batches.
        DamagedFileError: It is not an Arrow IPC file, or not a whole one.
    """
    import pyarrow as pa

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
            f"{path} is not a whole Arrow IPC file: {said_of(error)}. Copy or write it "
            "again.",
            path,
        ) from error
