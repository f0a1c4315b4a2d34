"""The dataset that is measured when no file is given: JPEGs in TFRecords.

Nothing is downloaded. The images are generated: smooth colours, edges and some noise, so
that they compress and decode like photographs (about 25 kB for 320 x 240). They are
written to a temporary folder, which is removed when the process ends.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ipufeed import _native
from ipufeed.checks import as_int
from ipufeed.tf_types import Dataset, Tensor

HEIGHT, WIDTH = 240, 320

_folders: list[Path] = []


def _remove_files() -> None:
    """Removes the files of make_dataset; its datasets cannot be iterated afterwards."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


_native.at_exit(_remove_files)


def make_dataset(
    batch_size: int = 32, images: int = 512, files: int = 4, image_size: int = 224
) -> Dataset:
    """Returns a dataset that reads, decodes, augments, batches and repeats.

    Args:
        batch_size: Images of a batch.
        images: Distinct images in all files.
        files: TFRecord files, read in parallel.
        image_size: Height and width of the augmented images.

    Returns:
        A dataset of ({"image": float32 [batch, size, size, 3]}, int32 [batch]).

    Raises:
        TypeError: An argument is not an int.
        ValueError: An argument is out of range.
    """
    import tensorflow as tf

    for name, value, most in (
        ("batch_size", batch_size, 65536),
        ("images", images, 1_000_000),
        ("image_size", image_size, 4096),
        ("files", files, images),
    ):
        count = as_int(name, value)
        if not 1 <= count <= most:
            raise ValueError(f"`{name}` must be in [1, {most}], got {count}.")
    folder = Path(tempfile.mkdtemp(prefix="ipufeed-"))
    _folders.append(folder)
    paths = _write_files(folder, images, files)

    def parse(record: Tensor) -> tuple[Tensor, Tensor]:
        features = tf.io.parse_single_example(
            record,
            {
                "image": tf.io.FixedLenFeature([], tf.string),
                "label": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        image = tf.io.decode_jpeg(features["image"], channels=3)
        return image, tf.cast(features["label"], tf.int32)

    def augment(image: Tensor, label: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        image = tf.image.random_crop(image, [200, 200, 3])
        image = tf.image.resize(image, [image_size, image_size])
        image = tf.image.random_flip_left_right(image) / 255.0
        return {"image": image}, label

    dataset = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
    dataset = dataset.interleave(
        tf.data.TFRecordDataset, cycle_length=files, num_parallel_calls=tf.data.AUTOTUNE
    )
    dataset = dataset.shuffle(256).repeat()
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, name="decode")
    dataset = dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE, name="augment")
    dataset = dataset.batch(batch_size, drop_remainder=True)
    found: Dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return found


def _write_files(folder: Path, images: int, files: int) -> list[Path]:
    import tensorflow as tf

    random = np.random.default_rng(0)
    paths = [folder / f"images-{number:03}.tfrecord" for number in range(files)]
    writers = [tf.io.TFRecordWriter(str(path)) for path in paths]
    for number in range(images):
        jpeg = tf.io.encode_jpeg(_make_image(random), quality=90).numpy()
        features = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
            "label": tf.train.Feature(
                int64_list=tf.train.Int64List(value=[number % 1000])
            ),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writers[number % files].write(example.SerializeToString())
    for writer in writers:
        writer.close()
    return paths


def _make_image(random: np.random.Generator) -> NDArray[np.uint8]:
    """uint8 [240, 320, 3]: waves of colour, a few rectangles, sensor-like noise."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    image = np.empty((HEIGHT, WIDTH, 3), np.float32)
    for channel in range(3):
        across, down, phase = random.uniform(0.005, 0.05, size=3)
        image[:, :, channel] = 128 + 90 * np.sin(across * x + down * y + 60 * phase)
    for _ in range(12):
        top, left = random.integers(0, HEIGHT - 20), random.integers(0, WIDTH - 20)
        height, width = random.integers(10, 80, size=2)
        image[top : top + height, left : left + width] += random.uniform(
            -90, 90, size=3
        )
    image += random.normal(0, 6, size=image.shape)
    return np.asarray(np.clip(image, 0, 255), np.uint8)
