"""Parquet files as a dataset: row groups in parallel, only the selected columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ipufeed.checks import flags_checked
from ipufeed.errors import DamagedFileError, SourceError
from ipufeed.sources.columns import choose_same_columns, null_message
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


@flags_checked
def parquet(
    files: Files,
    *,
    columns: Sequence[str] | None = None,
    batch_size: int | None = 1024,
    drop_remainder: bool = False,
    nulls: str = "error",
    shard: tuple[int, int] | None = None,
    parallel: int | None = None,
) -> tf.data.Dataset:
    """Returns batches of rows of Parquet files, as {column: tensor}.

    Args:
        files: A path, a pattern, or a list of them, all of one schema.
        columns: Names of the columns to read; only these are decompressed. Default: all.
        batch_size: Rows of an element, across row groups and files; None gives a row group
            as it is. Default: 1024.
        drop_remainder: Leave out a last batch that is shorter. Default: False.
        nulls: `error` refuses them, at once if the files' statistics have them, else when
            they are read; `drop` leaves out rows that hold one; `zero` reads 0, False or an
            empty string. Default: `error`.
        shard: (count, index): only every count-th row group, from number index on. Default:
            all.
        parallel: Row groups that are decoded at a time, each whole in memory. Default:
            AUTOTUNE.

    Returns:
        A tf.data.Dataset of dicts; `element_spec` is known from the schema (docs/sources.md
        has the types). Stages: `chunks`, `read`, `columns` (TensorFlow has no name for the
        batching). Its Python function runs once for each row group; tf.data service cannot
        send it to other processes.

    Raises:
        TypeError, ValueError: An argument is of another type, or out of range.
        SourceError: A file does not exist or has another schema, a column does not exist or
            has no dense tensor, there are nulls, or fewer row groups than shards.
        DamagedFileError: A file is not a Parquet file, or its end is missing.
    """
    batch_size = check_options(batch_size, nulls)
    calls = parallelism(parallel)
    paths = list_files(files, "Parquet")
    footers, schemas = {}, []
    for path in paths:
        footers[path], schema = _read_footer(path)
        schemas.append((path, schema))
    chosen = choose_same_columns(schemas, columns)
    chunks = shard_of(
        chunks_of((path, footers[path].num_row_groups) for path in paths),
        shard,
        "row groups",
        "Write smaller row groups (row_group_size of pyarrow.parquet.write_table).",
    )
    if nulls == "error":
        names = [column.name for column in chosen]
        for chunk in chunks:
            _refuse_known_nulls(_row_group(footers, chunk), names, chunk)

    def read(chunk: Chunk, names: list[str]) -> list[pa.ChunkedArray]:
        return _read_row_group(chunk, names, footers[chunk.path])

    return table_dataset(
        chunks,
        chosen,
        Format("row group", read),
        batch_size=batch_size,
        drop_remainder=drop_remainder,
        nulls=nulls,
        calls=calls,
        rows=sum(_row_group(footers, chunk).num_rows for chunk in chunks),
    )


def _read_footer(path: str) -> tuple[pq.FileMetaData, pa.Schema]:
    """Returns a file's metadata, and its schema as Arrow's.

    Raises:
        DamagedFileError: It is not a Parquet file, or its end is missing.
    """
    try:
        footer = pq.read_metadata(path)
        return footer, footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise DamagedFileError(
            f"{path} is not a whole Parquet file: {message_of(error)}. Copy or write it "
            "again.",
            path,
        ) from error


def _row_group(
    footers: dict[str, pq.FileMetaData], chunk: Chunk
) -> pq.RowGroupMetaData:
    return footers[chunk.path].row_group(chunk.number)


def _read_row_group(
    chunk: Chunk, names: list[str], footer: pq.FileMetaData
) -> list[pa.ChunkedArray]:
    # A reader for each call: it is not thread-safe. Reading the footer is the costly part
    # of opening a file, and is done already.
    with pq.ParquetFile(chunk.path, metadata=footer) as file:
        # Row groups are read in parallel; more threads would only compete.
        table = file.read_row_group(chunk.number, columns=names, use_threads=False)
    return [table.column(name) for name in names]


def _refuse_known_nulls(
    row_group: pq.RowGroupMetaData, names: list[str], chunk: Chunk
) -> None:
    """Raises an error for nulls that the statistics of a row group show."""
    for number in range(row_group.num_columns):
        column = row_group.column(number)
        name = column.path_in_schema.split(".")[0]
        statistics = column.statistics
        if name in names and statistics is not None and statistics.has_null_count:
            if not statistics.null_count or "." in column.path_in_schema:
                continue  # nulls inside a list are only known from its data
            raise SourceError(
                null_message(
                    name,
                    statistics.null_count,
                    f"{chunk.path}, row group {chunk.number}",
                )
            )
