"""The classic benchmark functions: a JSON string tensor with one entry per epoch.

    dataset_benchmark(dataset, number_of_epochs, elements_per_epochs) -> string [1]
    json.loads(result.numpy()[0])["epochs"][0]["elements_per_second"]

In eager mode they run immediately and return a tensor; in a graph they return an op for
Session.run. Epoch 0 contains the start-up; epochs are contiguous and the iterator is
not restarted between them. `ipufeed.benchmark.measure` reports more, and accepts datasets
that end early.

Source: names, arguments, JSON fields and messages follow `dataset_benchmark` in
graphcore/tensorflow. Differences: wrong arguments raise, where the original returned an
exception object; a dataset that ends or fails early raises, with the epochs so far, where
the original hung; counts are exact, where the original's were float32.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ipufeed import _native
from ipufeed.benchmark.result.settings import MOST
from ipufeed.checks import as_int, flags_checked
from ipufeed.tf_types import Dataset, Tensor

if TYPE_CHECKING:
    from ipufeed.queues.infeed import IPUInfeedQueue

_SO_FAR = "Epochs so far: "


@flags_checked
def dataset_benchmark(
    dataset: Dataset,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    apply_debug_options: bool = True,
    do_memcpy: bool = True,
) -> Tensor:
    """Measures `number_of_epochs` epochs of `elements_per_epochs` elements each.

    Args:
        dataset: A tf.data.Dataset.
        number_of_epochs: At least 1.
        elements_per_epochs: Elements (batches, if it is batched) of one epoch, at least 1.
        print_stats: Log elements/second and GB/s after each epoch.
        apply_debug_options: Honour tf.data.experimental.enable_debug_mode(), as iterating
            the dataset would.
        do_memcpy: Copy every component into a page-aligned buffer, as a transfer does.

    Returns:
        A string tensor of shape [1]: JSON `{"epochs": [...]}`, each entry with
        `elements_processed`, `total_bytes_processed` (bytes), `time_elapsed` (s),
        `elements_per_second` and `bandwidth` (GB/s, 1e9 bytes).

    Raises:
        TypeError: `dataset` is not a tf.data.Dataset, or a count is not an int.
        ValueError: A count is below 1.
        tf.errors.OutOfRangeError: The dataset is shorter; `partial_epochs(error)` has
            the epochs so far.
        tf.errors.InvalidArgumentError: A tensor has a dimension of size 0.
        tf.errors.OpError: The dataset failed; likewise.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            "Expected `dataset` argument to be of type `tf.data.Dataset`, but got "
            f"{dataset!r} of type {type(dataset).__name__} instead."
        )
    epochs = _check_count("number_of_epochs", number_of_epochs)
    elements = _check_count("elements_per_epochs", elements_per_epochs)
    if apply_debug_options:
        dataset = dataset._apply_debug_options()
    variant = dataset._variant_tensor
    arguments = {
        "number_of_epochs": epochs,
        "elements_per_epochs": elements,
        "print_stats": bool(print_stats),
        "do_memcpy": bool(do_memcpy),
    }
    with tf.device("/CPU:0"):
        return _native.load().ipufeed_dataset_benchmark(variant, **arguments)


@flags_checked
def infeed_benchmark(
    infeed_queue: IPUInfeedQueue,
    number_of_epochs: int,
    elements_per_epochs: int,
    print_stats: bool = True,
    do_memcpy: bool = True,
) -> Tensor:
    """Measures the dataset of an infeed queue; see `dataset_benchmark`.

    The queue need not be initialised and is not consumed.

    Raises:
        TypeError: `infeed_queue` is not an infeed queue.
    """
    import tensorflow as tf

    dataset = getattr(infeed_queue, "_dataset", None)
    if isinstance(infeed_queue, tf.data.Dataset) or not isinstance(
        dataset, tf.data.Dataset
    ):
        raise TypeError(
            "Expected `infeed_queue` argument to be of type `IPUInfeedQueue`, but got "
            f"{infeed_queue!r} of type {type(infeed_queue).__name__} instead."
        )
    return dataset_benchmark(
        dataset,
        number_of_epochs,
        elements_per_epochs,
        print_stats=print_stats,
        do_memcpy=do_memcpy,
    )


def partial_epochs(error: Exception) -> list[dict[str, float]]:
    """Returns the epochs that were complete, or begun, when a benchmark function failed.

    Args:
        error: From `dataset_benchmark` or Session.run.

    Returns:
        The entries as in the JSON; the last one may have fewer elements. Empty if the
        error came before the first epoch.
    """
    text = str(getattr(error, "message", error))
    start = text.rfind(_SO_FAR)
    if start < 0:
        return []
    epochs, _ = json.JSONDecoder().raw_decode(text, start + len(_SO_FAR))
    return list(epochs["epochs"])


def _check_count(name: str, value: object) -> int:
    # The original returned these errors instead of raising them.
    try:
        count = as_int(name, value)
    except TypeError:
        raise TypeError(
            f"Expected `{name}` to be an int, but got {value!r} of type "
            f"{type(value).__name__} instead."
        ) from None
    if count < 1:
        raise ValueError(f"Expected `{name}` to be at least 1, but got {count}.")
    if count > MOST:
        raise ValueError(f"Expected `{name}` to be at most {MOST}, but got {count}.")
    return count
