"""A Ray Data dataset, which gives batches of 256 rows.

python -m ipufeed.benchmark examples/loaders/ray_data.py
"""

import numpy as np
import ray


def picture(row):
    noise = np.random.default_rng(row["id"]).standard_normal((32, 32, 3), np.float32)
    return {"image": noise, "label": row["id"] % 10}


def make_loader(rows: int = 20_480):
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    return ray.data.range(rows).map(picture)
