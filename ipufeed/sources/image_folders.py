"""Folders of images as a dataset: a folder is a class."""

from __future__ import annotations

import operator
import os
from typing import Any

from ipufeed.errors import SourceError
from ipufeed.sources.files import parallelism, shard_of
from ipufeed.sources.named_errors import name_errors

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
CHANNELS = (1, 3, 4)


def images(
    folder: str | os.PathLike[str],
    *,
    resize: tuple[int, int] | None = None,
    channels: int = 3,
    shard: tuple[int, int] | None = None,
    parallel: int | None = None,
) -> tuple[Any, list[str]]:
    """The images in `folder/class/name.jpg`, decoded, and the names of the classes.

    Args:
        folder: Its folders are the classes, in the order of their names; files and what
            begins with a dot are passed over. In a class JPEG, PNG, BMP and GIF files (of
            which the first frame) are read, by their endings in upper or lower case.
        resize: (height, width) to which all are scaled, bilinearly. Default: as they are,
            so that they must be cropped or resized before they can be batched.
        channels: 1 for grey, 3 for RGB, 4 for RGBA. Default: 3.
        shard: (count, index): only every count-th image, from number index on, of all
            classes together. Default: all.
        parallel: Images that are read, and decoded, at a time. Default: AUTOTUNE.

    Returns:
        A dataset of (uint8 [height, width, channels], int32 class number), sorted by
        class and name, and the classes' names. An image that cannot be read or decoded
        is an error that begins with its path; `ignore_errors()` leaves such out. Stages:
        `files`, `read`, `decode`, `resize`.

    Raises:
        TypeError, ValueError: An argument is of another kind, or out of range.
        SourceError: There is no folder, no class, or no image in a class.
    """
    import tensorflow as tf

    if channels not in CHANNELS or isinstance(channels, bool):
        raise ValueError(f"`channels` must be 1, 3 or 4, got {channels!r}.")
    size = check_resize(resize)
    calls = parallelism(parallel)
    found, names = list_images(os.fspath(folder))
    found = shard_of(found, shard, "images", "Give fewer shards than there are images.")
    paths = tf.constant([path for path, _ in found])
    labels = tf.constant([label for _, label in found], tf.int32)

    def read(path: Any, label: Any) -> Any:
        return tf.io.read_file(path), label

    def decode(data: Any, label: Any) -> Any:
        # BMP has no image of one channel for a file of three, so it goes through RGB.
        image = tf.io.decode_image(data, channels, expand_animations=False)
        return tf.ensure_shape(image, [None, None, channels]), label

    def scale(image: Any, label: Any) -> Any:
        scaled = tf.image.resize(image, size, method="bilinear")
        return tf.cast(tf.round(scaled), tf.uint8), label

    dataset = tf.data.Dataset.from_tensor_slices((paths, labels), name="files")
    # In order, whatever the options of the dataset are: errors are named by number.
    in_order = {"num_parallel_calls": calls, "deterministic": True}
    dataset = dataset.map(read, name="read", **in_order)
    dataset = dataset.map(decode, name="decode", **in_order)
    dataset = name_errors(dataset, paths)
    if size is not None:
        dataset = dataset.map(scale, name="resize", **in_order)
    return dataset, names


def check_resize(resize: Any) -> tuple[int, int] | None:
    """(height, width) as ints.

    Raises:
        TypeError: It is not a pair of ints.
        ValueError: One is out of range.
    """
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


def list_images(folder: str) -> tuple[list[tuple[str, int]], list[str]]:
    """(path, class number) of each image, sorted, and the names of the classes.

    Raises:
        SourceError: There is no folder, no class, or no image in a class.
    """
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
