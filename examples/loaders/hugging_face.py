"""A Hugging Face dataset in batches, as NumPy arrays.

python -m ipufeed.benchmark examples/loaders/hugging_face.py
"""

import numpy as np
from datasets import Dataset

ROWS = 20_000


def make_loader(batch_size: int = 64):
    rows = np.random.default_rng(1).standard_normal((ROWS, 128), np.float32)
    table = Dataset.from_dict({"features": rows, "label": np.arange(ROWS) % 10})
    return table.with_format("numpy").batch(batch_size, drop_last_batch=True)
