"""PyDatasets of Keras and Sequences of tf_keras are read as their fit() does."""

import numpy as np
import pytest

from ipufeed.sources.loaders.kinds import is_known, kind_of


def elements(source):
    with kind_of(source).open() as iterator:
        return list(iterator)


def test_a_keras_dataset_gives_its_batches_by_index():
    import keras

    begun = []

    class Own(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return np.full((2, 1), index, np.float32), np.full(2, index)

        def on_epoch_begin(self):
            begun.append(True)

    for workers in (1, 2):
        source = Own(workers=workers)
        found = elements(source)
        assert [int(image[0, 0]) for image, _ in found] == [0, 1, 2]
        assert kind_of(source).batch == ""
    assert len(begun) == 2


def test_a_sequence_of_tf_keras_is_read_as_its_fit_does():
    """Imported here: with tf_keras TensorFlow is imported."""
    tf_keras = pytest.importorskip("tf_keras")
    calls = []

    class Own(tf_keras.utils.Sequence):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            calls.append(index)
            return np.full((2, 1), index, np.float32)

        def on_epoch_end(self):
            calls.append("end")

    source = Own()
    kind = kind_of(source)

    assert (kind.name, kind.passes, kind.batch) == ("tf_keras Sequence", True, "")
    assert is_known(source)
    for _ in range(2):
        assert len(elements(source)) == 3
    assert calls == [0, 1, 2, "end"] * 2
