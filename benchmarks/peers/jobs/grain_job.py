"""Grain: a MapDataset, with two reading threads."""

import grain
import pillow


def make_loader():
    return (
        grain.MapDataset.source(pillow.paths())
        .shuffle(seed=1)
        .repeat()
        .map(pillow.load)
        .batch(32)
        .to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=64))
    )
