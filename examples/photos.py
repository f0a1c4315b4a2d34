"""Photographs: JPEG files are read, decoded, augmented and batched.

The files are a few hundred crops of four photographs that scikit-image bundles. They are
written to a temporary folder, which goes when the process ends. Run it with

    python -m ipufeed.benchmark examples/photos.py --set batch_size=64
"""

import atexit
import importlib.util
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf

CROP = 320  # height and width of the files' images
PHOTOGRAPHS = ("astronaut.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")


def make_dataset(batch_size: int = 32, image_size: int = 224, files: int = 256):
    """Batches of (float32 [batch, size, size, 3] in [-1, 1], file names), endlessly."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="photos-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_crops(folder, files)

    def load(path):
        return tf.io.decode_jpeg(tf.io.read_file(path), channels=3), path

    def augment(image, path):
        image = tf.image.random_crop(image, [CROP * 7 // 8, CROP * 7 // 8, 3])
        image = tf.image.random_flip_left_right(image)
        image = tf.image.resize(image, [image_size, image_size])
        return image / 127.5 - 1.0, tf.strings.split(path, "/")[-1]

    dataset = tf.data.Dataset.list_files(str(folder / "*.jpg"))
    dataset = dataset.shuffle(files).repeat()
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE, name="load")
    dataset = dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE, name="augment")
    return dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def write_crops(folder: pathlib.Path, files: int) -> None:
    """Writes `files` square crops of the photographs, the same ones every time."""
    random = np.random.default_rng(0)
    photographs = [
        tf.io.decode_image(path.read_bytes(), channels=3).numpy()
        for path in originals()
    ]
    for number in range(files):
        photograph = photographs[number % len(photographs)]
        top = random.integers(photograph.shape[0] - CROP + 1)
        left = random.integers(photograph.shape[1] - CROP + 1)
        crop = photograph[top : top + CROP, left : left + CROP]
        jpeg = tf.io.encode_jpeg(crop, quality=90).numpy()
        (folder / f"{number:05}.jpg").write_bytes(jpeg)


def originals() -> list[pathlib.Path]:
    """The photographs of scikit-image, which is not imported for them: that is slow."""
    skimage = importlib.util.find_spec("skimage")
    if skimage is None or skimage.origin is None:
        raise SystemExit("the photographs are scikit-image's: pip install scikit-image")
    folder = pathlib.Path(skimage.origin).parent / "data"
    return [folder / name for name in PHOTOGRAPHS]
