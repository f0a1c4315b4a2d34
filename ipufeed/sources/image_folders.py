"""Folders of images as a dataset: each folder is a class."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING

from ipufeed.checks import as_path, is_int
from ipufeed.errors import SourceError
from ipufeed.sources.files import parallelism, shard_of
from ipufeed.sources.named_errors import name_errors
from ipufeed.tf_types import Nest, Tensor

if TYPE_CHECKING:
    import tensorflow as tf

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
CHANNELS = (1, 3, 4)


def images(
    folder: str | os.PathLike[str],
    *,
    resize: tuple[int, int] | None = None,
    channels: int = 3,
    shard: tuple[int, int] | None = None,
    parallel: int | None = None,
) -> tuple[tf.data.Dataset, list[str]]:
    """Returns the decoded images in `folder/class/name.jpg`, and the names of the classes.

    Args:
        folder: Its folders are the classes, in the order of their names; files and names
            with a leading dot are ignored. JPEG, PNG, BMP and GIF files (their first frame)
            of a class are read, by their endings in upper or lower case.
        resize: (height, width) to which all are scaled, bilinearly. Default: as they are,
            so that they must be cropped or resized before they can be batched.
        channels: 1 for grey (not for BMP files), 3 for RGB, 4 for RGBA. Default: 3.
        shard: (count, index): only every count-th image of all classes together, from
            number index on. Default: all.
        parallel: Images that are read, and decoded, at a time. Default: AUTOTUNE.

    Returns:
        A dataset of (uint8 [height, width, channels], int32 class number), sorted by class
        and name, and the classes' names. An image that cannot be read or decoded is an
        error that begins with its path; `ignore_errors()` leaves such images out. Stages:
        `files`, `read`, `decode`, `resize`.

    Raises:
        TypeError, ValueError: An argument is of another type, or out of range.
        SourceError: The folder does not exist, it has no class, or a class has no image.
    """
    import tensorflow as tf

    if not is_int(channels) or channels not in CHANNELS:
        raise ValueError(f"`channels` must be 1, 3 or 4, got {channels!r}.")
    size = _check_resize(resize)
    calls = parallelism(parallel)
    found, names = _list_images(as_path("folder", folder))
    found = shard_of(found, shard, "images", "Give fewer shards than there are images.")
    paths = tf.constant([path for path, _ in found])
    labels = tf.constant([label for _, label in found], tf.int32)

    def read(path: Tensor, label: Tensor) -> Nest:
        return tf.io.read_file(path), label

    def decode(data: Tensor, label: Tensor) -> Nest:
        image = tf.io.decode_image(data, channels, expand_animations=False)
        return tf.ensure_shape(image, [None, None, channels]), label

    def scale(image: Tensor, label: Tensor) -> Nest:
        scaled = tf.image.resize(image, size, method="bilinear")
        return tf.cast(tf.round(scaled), tf.uint8), label

    dataset = tf.data.Dataset.from_tensor_slices((paths, labels), name="files")
    # In order, whatever the dataset's options are: errors are named by position.
    in_order = {"num_parallel_calls": calls, "deterministic": True}
    dataset = dataset.map(read, name="read", **in_order)
    dataset = dataset.map(decode, name="decode", **in_order)
    dataset = name_errors(dataset, paths)
    if size is not None:
        dataset = dataset.map(scale, name="resize", **in_order)
    return dataset, names


def _check_resize(resize: tuple[int, int] | None) -> tuple[int, int] | None:
    if resize is None:
        return None
    try:
        height, width = (operator.index(number) for number in resize)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`resize` must be (height, width), two ints, got {resize!r}."
        ) from error
    if not (1 <= height <= 65536 and 1 <= width <= 65536):
        raise ValueError(
            f"`resize` must be (height, width) in [1, 65536], got ({height}, {width})."
        )
    return height, width


def _list_images(folder: str) -> tuple[list[tuple[str, int]], list[str]]:
    """Returns (path, class number) of each image, sorted, and the classes' names."""
    try:
        names = sorted(
            entry.name
            for entry in os.scandir(folder)
            if entry.is_dir() and not entry.name.startswith(".")
        )
    except OSError as error:
        raise SourceError(
            f"cannot list {folder}: {error.strerror or error}. `folder` must be a folder "
            "with a folder of images for each class."
        ) from error
    if not names:
        raise SourceError(
            f"{folder} has no folders, and each class must be one: "
            f"{os.path.join(folder, 'cat', '1.jpg')}."
        )
    found = []
    for number, name in enumerate(names):
        inside = os.path.join(folder, name)
        files = sorted(
            entry.name
            for entry in os.scandir(inside)
            if entry.name.lower().endswith(ENDINGS)
            and not entry.name.startswith(".")
            and entry.is_file()
        )
        if not files:
            raise SourceError(
                f"{inside} has no images ({', '.join(ENDINGS)}), and each class must have "
                "at least one. Remove the folder if it is not a class."
            )
        found += [(os.path.join(inside, file), number) for file in files]
    return found, names
