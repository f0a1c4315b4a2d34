"""A generator function: each pass calls it again.

python -m ipufeed.benchmark examples/loaders/generator.py --passes 3
"""

import numpy as np


def make_loader(batches: int = 500, batch_size: int = 64):
    generator = np.random.default_rng(1)
    for _ in range(batches):
        image = generator.standard_normal((batch_size, 32, 32, 3), np.float32)
        yield {"image": image, "label": np.arange(batch_size, dtype=np.int32)}
