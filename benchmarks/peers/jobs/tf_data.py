"""tf.data, with its own JPEG decoder and AUTOTUNE."""

import glob
import os

import tensorflow as tf


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.random_flip_left_right(tf.image.random_crop(image, [224, 224, 3]))
    return tf.image.convert_image_dtype(image, tf.float32)


def make_dataset():
    paths = sorted(glob.glob(os.environ["IPUFEED_PEERS_IMAGES"] + "/*.jpg"))
    return (
        tf.data.Dataset.from_tensor_slices(paths)
        .shuffle(len(paths))
        .repeat()
        .map(load, num_parallel_calls=2)
        .batch(32, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
