"""A PyDataset of Keras: batches by index, from two worker threads.

python -m ipufeed.benchmark examples/loaders/keras_dataset.py
"""

import keras
import numpy as np


class Noisy(keras.utils.PyDataset):
    """Batches of pictures with noise."""

    def __init__(self, batches=300, batch_size=64, **arguments):
        super().__init__(**arguments)
        self.batches, self.batch_size = batches, batch_size

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        generator = np.random.default_rng(index)
        shape = (self.batch_size, 32, 32, 3)
        return generator.standard_normal(shape, np.float32), np.arange(self.batch_size)


def make_loader(workers: int = 2):
    return Noisy(workers=workers)
