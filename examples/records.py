"""TFRecords: files are checked, read in parallel, parsed and batched.

The files hold sentences with a score each, and are written to a temporary folder, which
goes when the process ends. Run it with

    python -m ipufeed.benchmark examples/records.py --set shards=2 --set shard=1
"""

import atexit
import pathlib
import shutil
import tempfile

import tensorflow as tf

from ipufeed import sources

TEXT = "the feed waits for no one but a ring that is full keeps everybody waiting"
WORDS = [word.encode() for word in TEXT.split()]
FEATURES = {
    "words": tf.io.VarLenFeature(tf.string),
    "score": tf.io.FixedLenFeature([], tf.float32),
}


def make_dataset(batch_size: int = 64, shards: int = 1, shard: int = 0):
    """Batches of ({"words": int64 [batch, longest]}, score: float32 [batch]), endlessly."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="records-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for number in range(4):
        write(folder / f"{number}.tfrecord", number)

    def parse(records):
        parsed = tf.io.parse_example(records, FEATURES)
        words = tf.sparse.to_dense(parsed["words"])
        return {"words": tf.strings.to_hash_bucket_fast(words, 997)}, parsed["score"]

    dataset = sources.tfrecord(str(folder / "*.tfrecord"), shard=(shards, shard))
    dataset = dataset.repeat().batch(batch_size, drop_remainder=True)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, name="parse")
    return dataset.prefetch(tf.data.AUTOTUNE)


def write(path: pathlib.Path, number: int) -> None:
    """Writes 2000 sentences."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for line in range(2000):
            first = (line * 7 + number) % len(WORDS)
            words = WORDS[first:]
            features = {
                "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=words)),
                "score": tf.train.Feature(
                    float_list=tf.train.FloatList(value=[line % 5])
                ),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
