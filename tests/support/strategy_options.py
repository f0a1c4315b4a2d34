"""Arguments of the strategies that have no effect, and how to give each."""

import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.programs import horovod
from ipufeed.programs.popdist_strategy import (
    IPUMultiWorkerExtendedV1,
    IPUMultiWorkerStrategyV1,
    PopDistExtendedV1,
    PopDistStrategy,
)


def alone():
    """Returns a cluster resolver of one process."""
    spec = tf.train.ClusterSpec({})
    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec)


def run_with_options(strategy):
    with strategy.scope():
        strategy.run(tf.function(lambda: 1.0), options=tf.distribute.RunOptions())


MULTI_WORKER = "ipu_multi_worker_strategy.IPUMultiWorker"
POPDIST = "distributed.popdist_strategy.PopDist"
CALLS = {
    ("ipu_strategy.IPUStrategy.run", "options"): lambda: run_with_options(
        IPUStrategy()
    ),
    (f"{POPDIST}Strategy.run", "options"): lambda: run_with_options(PopDistStrategy()),
    (f"{POPDIST}ExtendedV1", "cluster_resolver"): lambda: PopDistExtendedV1(
        PopDistStrategy(), alone()
    ),
    ("horovod.init", "comm"): lambda: horovod.init(comm=[0]),
    (f"{MULTI_WORKER}Strategy", "variables_on_host"): lambda: IPUMultiWorkerStrategyV1(
        alone(), variables_on_host=True
    ),
    (f"{MULTI_WORKER}Strategy.run", "options"): lambda: run_with_options(
        IPUMultiWorkerStrategyV1(alone())
    ),
    (f"{MULTI_WORKER}ExtendedV1", "variables_on_host"): lambda: (
        IPUMultiWorkerExtendedV1(PopDistStrategy(), alone(), "/device:IPU:0", True)
    ),
}
