"""Text: lines are read, tokenised, looked up in a vocabulary and padded to batches.

The text is English prose that comes along with Python: the language reference, as `help()`
shows it. It is read where it is installed. Run it with

    python -m ipufeed.benchmark examples/text.py --set vocabulary_size=500
"""

import collections
import importlib.util
import pathlib
import re

import tensorflow as tf

NOT_A_WORD = r"(?:\\n|[^a-z0-9])+"  # the file writes the ends of lines as \\n


def make_dataset(
    batch_size: int = 64, most_words: int = 32, vocabulary_size: int = 2000
):
    """Batches of int64 [batch, words], padded with 0 to the longest line; endless."""
    paths = [str(path) for path in texts()]
    words = tf.constant(vocabulary(paths, vocabulary_size))
    # Number 0 pads, and words that are not in the vocabulary share the last number.
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(
            words, tf.range(len(words), dtype=tf.int64)
        ),
        num_oov_buckets=1,
    )

    def tokenise(line):
        line = tf.strings.regex_replace(tf.strings.lower(line), NOT_A_WORD, " ")
        return table.lookup(tf.strings.split(line)[:most_words]) + 1

    lines = tf.data.TextLineDataset(paths)
    lines = lines.filter(lambda line: tf.strings.regex_full_match(line, ".*[A-Za-z].*"))
    lines = lines.shuffle(1024).repeat()
    dataset = lines.map(tokenise, num_parallel_calls=tf.data.AUTOTUNE, name="tokenise")
    dataset = dataset.padded_batch(batch_size, drop_remainder=True)
    return dataset.prefetch(tf.data.AUTOTUNE)


def vocabulary(paths: list[str], size: int) -> list[str]:
    """The `size` words that are most frequent, the most frequent first."""
    counts = collections.Counter[str]()
    for path in paths:
        text = pathlib.Path(path).read_text(encoding="utf-8").lower()
        counts.update(filter(None, re.split(NOT_A_WORD, text)))
    return [word for word, _ in counts.most_common(size)]


def texts() -> list[pathlib.Path]:
    """The file with the language reference, which is not imported for it."""
    spec = importlib.util.find_spec("pydoc_data")
    if spec is None or spec.origin is None:
        raise SystemExit("this Python was installed without pydoc_data, its reference")
    return [pathlib.Path(spec.origin).with_name("topics.py")]
