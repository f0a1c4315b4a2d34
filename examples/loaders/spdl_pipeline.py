"""An SPDL pipeline: a source, a stage of four threads, batches.

A pipeline runs once. From a function each pass gets one of its own.

    python -m ipufeed.benchmark examples/loaders/spdl_pipeline.py
"""

import numpy as np
from spdl.pipeline import PipelineBuilder


def decode(index):
    noise = np.random.default_rng(index).standard_normal((32, 32, 3), np.float32)
    return np.clip(noise, -1, 1)


def make_pipeline(batch_size: int = 64, threads: int = 4):
    return (
        PipelineBuilder()
        .add_source(range(20_000))
        .pipe(decode, concurrency=threads)
        .aggregate(batch_size, drop_last=True)
        .pipe(np.stack)
        .add_sink(4)
        .build(num_threads=threads + 2)
    )
