"""Builds datasets for the host, in an IPU's scope too.

A shuffle's seeds and a cache's elements are resources of the device that has the dataset's
op. An infeed iterates on the CPU, and so does TensorFlow over a dataset whose last op is
there; neither finds the resources of another device. Each iteration would have the first
one's order, and would fill the cache again.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_dataset_ops, gen_experimental_dataset_ops

from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Tensor


@functools.cache
def install(on_ipu: Callable[[], bool]) -> None:
    """Makes TensorFlow build the ops of datasets for the CPU where `on_ipu` is true."""
    for module in (gen_dataset_ops, gen_experimental_dataset_ops):
        for name in [*_builders(module)]:
            replace(module, name, _on_host(getattr(module, name), on_ipu))


def _builders(module: types.ModuleType) -> Iterator[str]:
    """Yields the names of the functions that build the ops of datasets.

    dummy_memory_cache and dummy_seed_generator build the ops of their resources.
    """
    for name, value in vars(module).items():
        if name.startswith("_") or name.endswith("_eager_fallback"):
            continue
        if (
            name.islower()
            and callable(value)
            and ("dataset" in name or "dummy" in name)
        ):
            yield name


def _on_host(
    build: Callable[..., Tensor], on_ipu: Callable[[], bool]
) -> Callable[..., Tensor]:
    """Wraps a function that builds an op."""

    @functools.wraps(build)
    def build_on_host(*args: Any, **kwargs: Any) -> Tensor:
        if not on_ipu():
            return build(*args, **kwargs)
        with tf.device("/device:CPU:0"):
            return build(*args, **kwargs)

    return build_on_host
