"""Steps behind a batch that give its elements, although they read other datasets, too."""

import pytest
import tensorflow as tf

from ipufeed.benchmark.measuring.describe import sample_rule

SINGLE = tf.data.Dataset.range(8)
BATCHES = SINGLE.batch(2)
MIXTURES = {
    "sample": lambda a, b: tf.data.Dataset.sample_from_datasets([a, b]),
    "choose": lambda a, b: tf.data.Dataset.choose_from_datasets([a, b], SINGLE),
}


@pytest.mark.parametrize("mix", ["sample", "choose"])
def test_a_mixture_of_batches_has_batches(mix):
    mixture = MIXTURES[mix](BATCHES, BATCHES)

    assert sample_rule(mixture, None).per_element is None
    assert sample_rule(MIXTURES[mix](BATCHES, SINGLE), None).per_element == 1


@pytest.mark.parametrize(("dataset", "samples"), [(BATCHES, None), (SINGLE, 1)])
def test_a_snapshot_of_batches_has_batches(tmp_path, dataset, samples):
    """It numbers them, and drops the numbers again."""
    snapshot = dataset.snapshot(str(tmp_path))

    assert sample_rule(snapshot, None).per_element == samples
