"""Datasets from files, from loaders of other frameworks, and synthetic ones.

    tfrecord(files)          records, from files that were checked first
    check_tfrecord(path)     whether a TFRecord file is whole, and where it is not
    parquet(files)           batches of columns, row groups in parallel
    arrow_ipc(files)         the same from Arrow IPC files
    images(folder)           class/name.jpg -> (uint8 image, label)
    synthetic(shape, dtype)  elements that take no time, or a given time
    from_loader(loader)      what a loader of another framework gives, to feed it

    files --> listed, sharded --> named stages --> tf.data.Dataset

Each stage has a name (`name=`), so that a report shows `read` or `decode` instead of the
fifth ParallelMapV2. Errors of damaged files name the file, the place and the remedy.
docs/sources.md has the costs, and what TensorFlow itself does.

Uses no other folder. The names below are loaded at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipufeed.sources.image_folders import images
    from ipufeed.sources.ipc_files import arrow_ipc
    from ipufeed.sources.loaders.as_dataset import from_loader
    from ipufeed.sources.parquet_files import parquet
    from ipufeed.sources.record_check import RecordFault, RecordReport, check_tfrecord
    from ipufeed.sources.record_files import tfrecord
    from ipufeed.sources.synthetic_elements import synthetic

__all__ = [
    "RecordFault",
    "RecordReport",
    "arrow_ipc",
    "check_tfrecord",
    "from_loader",
    "images",
    "parquet",
    "synthetic",
    "tfrecord",
]

# No module may have the name of a function here: importing it would hide the function.
_HOMES = {
    "RecordFault": "record_check",
    "RecordReport": "record_check",
    "arrow_ipc": "ipc_files",
    "check_tfrecord": "record_check",
    "from_loader": "loaders.as_dataset",
    "images": "image_folders",
    "parquet": "parquet_files",
    "synthetic": "synthetic_elements",
    "tfrecord": "record_files",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"ipufeed.sources.{_HOMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'ipufeed.sources' has no attribute {name!r}")
