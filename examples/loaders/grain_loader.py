"""A Grain dataset: shuffled, mapped and batched, read by threads.

python -m ipufeed.benchmark examples/loaders/grain_loader.py
"""

import grain
import numpy as np


def picture(index):
    noise = np.random.default_rng(index).standard_normal((32, 32, 3), np.float32)
    return {"image": noise, "label": np.int32(index % 10)}


def make_loader(batch_size: int = 64, threads: int = 4):
    return (
        grain.MapDataset.range(20_000)
        .shuffle(seed=1)
        .map(picture)
        .batch(batch_size, drop_remainder=True)
        .to_iter_dataset(
            grain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
        )
    )
