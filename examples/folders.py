"""Folders: class/name.png is listed, read, decoded and resized in parallel.

The images are two kinds of noise, written to a temporary folder, which goes when the
process ends. Run it with

    python -m ipufeed.benchmark examples/folders.py --set batch_size=16
"""

import atexit
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf

from ipufeed import sources


def make_dataset(batch_size: int = 32, size: int = 96, images: int = 60):
    """Batches of (uint8 [batch, size, size, 3], class: int32 [batch]), endlessly."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="folders-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    random = np.random.default_rng(0)
    for name, step in {"fine": 1, "coarse": 8}.items():
        (folder / name).mkdir()
        for number in range(images):
            pixels = random.integers(0, 256, (128 // step, 160 // step, 3), np.uint8)
            pixels = pixels.repeat(step, 0).repeat(step, 1)
            png = tf.io.encode_png(pixels).numpy()
            (folder / name / f"{number:03}.png").write_bytes(png)

    dataset, classes = sources.images(folder, resize=(size, size))
    assert classes == ["coarse", "fine"]
    dataset = dataset.shuffle(2 * images, seed=0).repeat()
    return dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
