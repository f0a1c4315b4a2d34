"""The reduction of a metric over replicas, on the host and on the device."""

import pytest
import tensorflow as tf

from ipufeed.keras.replica_metrics import (
    ReplicatedMetricReductionMethod,
    reduce_on_device,
    reduce_on_host,
)


@pytest.mark.parametrize("dtype", [tf.int32, tf.float32])
def test_the_mean_of_a_metric_has_a_fraction_on_the_host_as_on_the_device(dtype):
    """A count of 1 on one replica and of 2 on the other has the mean 1.5."""
    mean = ReplicatedMetricReductionMethod.MEAN
    found = reduce_on_host(mean, tf.constant([1, 2], dtype))
    on_device = reduce_on_device(mean, tf.constant(1, dtype), 1)

    assert found.numpy() == 1.5
    assert found.dtype == on_device.dtype
