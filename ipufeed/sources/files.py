"""Lists the files of a source in their order, and selects those of a shard."""

from __future__ import annotations

import glob
import operator
import os
from collections.abc import Sequence
from typing import TypeVar

from ipufeed.checks import as_int
from ipufeed.errors import SourceError

Piece = TypeVar("Piece")
Path = str | os.PathLike[str]
Files = Path | Sequence[Path]
MAGIC = frozenset("*?[")
# Attribute of a dataset that lists the files that it reads in Python, which no graph
# shows: `python -m ipufeed.benchmark --cold` drops them.
FILES_OF = "_ipufeed_files"


def message_of(error: Exception) -> str:
    """Returns the message of another library's error, as part of a sentence."""
    return " ".join(str(error).split()).rstrip(".")


def list_files(files: Files, what: str) -> list[str]:
    """Returns the paths of files.

    Args:
        files: A path, a pattern (`*`, `?`, `[...]`, `**`), or several of them. A pattern
            gives its files sorted by name; a list keeps its order.
        what: The kind of file, for messages: `TFRecord`.

    Raises:
        TypeError: It is neither a path nor a sequence of paths.
        SourceError: A path does not exist or is a folder, a pattern matches nothing, or a
            file is named twice.
    """
    if isinstance(files, (str, os.PathLike)):
        files = [files]
    if not isinstance(files, Sequence) or isinstance(files, (bytes, bytearray)):
        raise TypeError(
            f"`files` must be a path, a pattern or a list of them, got "
            f"{type(files).__name__}."
        )
    found: list[str] = []
    for each in files:
        if not isinstance(each, (str, os.PathLike)):
            raise TypeError(
                f"`files` must hold paths, and one is a {type(each).__name__}: {each!r}."
            )
        found += _expand(os.fspath(each), what)
    if not found:
        raise SourceError(f"`files` must name at least one {what} file, got none.")
    if len(set(found)) < len(found):
        twice = next(path for path in found if found.count(path) > 1)
        raise SourceError(
            f"{twice} is named twice in `files`: its elements would come twice. Name it "
            "once, and repeat() the dataset."
        )
    return found


def _expand(path: str, what: str) -> list[str]:
    """Returns the path, or the sorted files that match a pattern."""
    if "://" in path:
        raise SourceError(
            f"{path} must be a local file. Copy it to a local disk, or mount its file "
            "system."
        )
    if os.path.isdir(path):
        raise SourceError(
            f"{path} is a folder, and `files` takes files: give the pattern "
            f"{os.path.join(path, '*')}."
        )
    if os.path.exists(path):  # also if its name looks like a pattern
        return [path]
    if not MAGIC & set(path):
        raise SourceError(f"{path} is not there: `files` must name {what} files.")
    paths = sorted(glob.glob(path, recursive=True))
    paths = [each for each in paths if os.path.isfile(each)]
    if not paths:
        raise SourceError(
            f"no file matches the pattern {path} in {os.getcwd()}: `files` must name "
            f"{what} files."
        )
    return paths


def shard_of(
    pieces: list[Piece], shard: tuple[int, int] | None, what: str, remedy: str
) -> list[Piece]:
    """Returns every `count`-th of the pieces, from `index` on; all without a shard.

    Args:
        pieces: In an order that is the same in all processes.
        shard: (count, index) with 0 <= index < count, or None.
        what: Plural of a piece, for messages: `files`.
        remedy: What to do if there are fewer pieces than shards.

    Raises:
        TypeError: `shard` is not a pair of ints.
        ValueError: It is out of range.
        SourceError: There are fewer pieces than shards.
    """
    if shard is None:
        return pieces
    try:
        count, index = (operator.index(number) for number in shard)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`shard` must be a pair (count, index) of ints, got {shard!r}."
        ) from error
    if not 0 <= index < count:
        raise ValueError(
            f"`shard` must be (count, index) with 0 <= index < count, got "
            f"({count}, {index})."
        )
    if count > len(pieces):
        raise SourceError(
            f"`shard` asks for {count} shards, and there are only {len(pieces)} {what}: "
            f"some shards would be empty. {remedy}"
        )
    return pieces[index::count]


def parallelism(parallel: int | None) -> int:
    """Returns `parallel` as a num_parallel_calls; AUTOTUNE for None.

    Raises:
        TypeError: It is not an int.
        ValueError: It is below 1.
    """
    import tensorflow as tf

    if parallel is None:
        return int(tf.data.AUTOTUNE)
    count = as_int("parallel", parallel, " or None")
    if count == tf.data.AUTOTUNE:
        return count
    if not 1 <= count <= 1024:
        raise ValueError(
            f"`parallel` must be in [1, 1024], or None for AUTOTUNE, got {parallel!r}."
        )
    return count
