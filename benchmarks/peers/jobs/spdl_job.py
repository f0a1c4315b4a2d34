"""SPDL: a pipeline with two threads that decode."""

import itertools
import random

import numpy as np
import pillow
from spdl.pipeline import PipelineBuilder


def endless():
    paths = pillow.paths()
    for _ in itertools.count():
        random.shuffle(paths)
        yield from paths


def make_pipeline():
    return (
        PipelineBuilder()
        .add_source(endless())
        .pipe(pillow.load, concurrency=2)
        .aggregate(32)
        .pipe(np.stack)
        .add_sink(2)
        .build(num_threads=4)
    )
