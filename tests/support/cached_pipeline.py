"""A process of test_pipeline_cache.py: trains a pipeline of two stages, and says what of.

    python cached_pipeline.py IPUS CONNECTION EXTRA [COUNT]

EXTRA functions are traced first, on a device of IPUS IPUs. With COUNT that many
mini-batches are an input of the program. Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tensorflow as tf
from models import Pipelined, v1

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.executable import stats
from ipufeed.parallel.optimizers.optimizers import CrossReplicaOptimizer


def main(ipus: str, connection: str, extra: str, *counts: str) -> None:
    """Trains, and prints."""
    config = IPUConfig()
    config.auto_select_ipus = int(ipus)
    config.device_connection.type = DeviceConnectionType[connection]
    config.device_connection.enable_remote_buffers = True
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    for number in range(int(extra)):
        tf.function(lambda x, number=number: x + number)(1.0)
    model = Pipelined(
        lambda: CrossReplicaOptimizer(v1.train.MomentumOptimizer(0.05, 0.9)), 2, 4
    )
    trained = model.train(*map(int, counts))
    counts = stats()
    found = {
        "compiles": counts.compiles,
        "read": counts.disk_hits,
        "losses": trained.losses.tolist(),
        "weights": [each.tolist() for each in trained.weights],
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
