"""The windows of a run as a Parquet file: a row for each window, and metadata.

    start     timestamp[us, UTC]   start of the window
    part      startup, fill, steady, drain, stalled
    others    as in `series` of the JSON (docs/result.md)

Metadata, all text: `ipufeed.schema_version`, `ipufeed.dataset` (its name), and as JSON
`ipufeed.machine`, `ipufeed.settings`, `ipufeed.steady`, `ipufeed.warnings`.
"""

from __future__ import annotations

import datetime
import json

from ipufeed.render.text import JsonObject, part

METADATA = ("machine", "settings", "steady", "warnings")
NUMBERS = {
    "start_seconds": "float64",
    "seconds": "float64",
    "elements": "int64",
    "bytes": "int64",
    "starved_share": "float64",
    "blocked_share": "float64",
    "queue_depth": "float64",
}


def parquet_bytes(result: JsonObject) -> bytes:
    """Returns the Parquet file of a result as the JSON holds it; no rows without a series.

    `start` is null if the result has no start time.
    """
    import pyarrow as pa
    from pyarrow import parquet

    series = part(result, "series")
    columns = {
        name: pa.array(series.get(name, []), getattr(pa, kind)())
        for name, kind in NUMBERS.items()
    }
    columns["part"] = pa.array(series.get("part", []), pa.string())
    begin = _begin_of(result)
    starts = [
        begin and begin + datetime.timedelta(seconds=offset)
        for offset in series.get("start_seconds", [])
    ]
    columns = {"start": pa.array(starts, pa.timestamp("us", tz="UTC")), **columns}
    metadata = {
        "ipufeed.schema_version": str(result.get("schema_version")),
        "ipufeed.dataset": str(part(result, "dataset").get("name", "")),
        **{f"ipufeed.{name}": json.dumps(result.get(name)) for name in METADATA},
    }
    table = pa.table(columns).replace_schema_metadata(
        {key: value.encode("utf-8", "replace") for key, value in metadata.items()}
    )
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _begin_of(result: JsonObject) -> datetime.datetime | None:
    """Returns the time at which the iterator was requested."""
    text = part(result, "startup").get("requested_at")
    try:
        return datetime.datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
