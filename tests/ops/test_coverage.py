"""Which test computes each operation, and all of them in the stages of a pipeline."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT
from test_everywhere import losses
from test_values import CASES

from ipufeed import graphcore_names
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.ops import refused
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.long

# Operations that CASES has not, and the files that compare their numbers: with loops,
# sessions or pipelines where these make a difference.
CTC = "ctc_loss_v2 ctc_loss_with_log_probs ctc_beam_search_decoder"
ELSEWHERE = {
    "tests/ops/test_f8_ops.py": "f8_matmul f8_conv_1d f8_conv_2d f8_conv_3d"
    " convert_to_f8 convert_from_f8 create_metadata Format QuarterTensor"
    " canonicalise_input canonicalise_output",
    "tests/ops/host/test_host_embedding.py": "create_host_embedding HostEmbedding"
    " HostEmbeddingOptimizerSpec HostEmbeddingSGDGAOptimizerSpec",
    "tests/ops/test_loss_values.py": f"{CTC} ctc_beam_search_decoder_with_log_probs"
    " nce_loss sampled_softmax_loss",
    "tests/ops/host/test_custom_ops.py": "cpu_user_operation precompiled_user_op",
    "tests/ops/test_internal_ops.py": "fifo get_current_iteration_counter print_tensor",
    "tests/ops/test_rand_ops.py": "dropout",
    "tests/ops/test_values.py": "histogram histogram_update",
    "tests/ops/test_within_replica_ops.py": "all_gather all_reduce reduce_scatter",
}
MODULES = (
    *("control_flow_ops", "custom_ops", "embedding_ops", "f8_ops", "functional_ops"),
    *("image_ops", "internal_ops", "math_ops", "nn_ops", "normalization_ops"),
    *("rand_ops", "slicing_ops", "statistics_ops"),
    "within_replica_ops",
)


def operations():
    """The operations that work, of these modules."""
    return {
        name
        for module in MODULES
        for name, place in graphcore_names.MODULES[f"ops.{module}"].items()
        if place != refused.__name__
    }


def test_each_operation_is_compared_with_a_formula():
    """In CASES, which runs eagerly, in loops of both styles and here; or in a file."""
    listed = {name for names in ELSEWHERE.values() for name in names.split()}
    cases = {name.split(",")[0].split(" ")[0] for name in CASES}

    assert operations() - cases == listed
    for file, names in ELSEWHERE.items():
        text = (ROOT / file).read_text()
        assert all(name in text for name in names.split()), file


NAMES = list(CASES)


def results_of(names, step):
    """What operations give for their inputs times a number, each as one vector."""
    found = []
    for name in names:
        operation, _, inputs = CASES[name]
        results = operation(*(tf.constant(each) * step for each in inputs))
        found += [
            tf.reshape(tf.cast(tf.convert_to_tensor(each), tf.float32), [-1])
            for each in tf.nest.flatten(results)
        ]
    return tf.concat(found, 0)


@pytest.mark.usefixtures("clean_system")
def test_stages_of_a_pipeline_compute_what_eager_mode_does():
    """Half of the operations in each of two stages, for several mini-batches."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    steps = np.float32([0.5, 1.0, 1.5, 2.0])
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(steps))
    outfeed = IPUOutfeedQueue()
    first, second = NAMES[::2], NAMES[1::2]

    def one(step):
        return step, results_of(first, step)

    def two(step, results):
        of_losses = [tf.reshape(each, [-1]) for each in losses(step)]
        return tf.concat([results, results_of(second, step), *of_losses], 0)

    @tf.function(jit_compile=True)
    def program():
        pipeline(
            [one, two],
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            device_mapping=[0, 1],
        )

    infeed.initializer  # noqa: B018 (acts when it is read)
    IPUStrategy().run(program)
    found = outfeed.dequeue()
    found = tf.nest.flatten(found)[0].numpy()

    for row, step in zip(found, steps, strict=True):
        of_losses = [tf.reshape(each, [-1]) for each in tf.function(losses)(step)]
        wanted = [results_of(first, step), results_of(second, step), *of_losses]
        wanted = tf.concat(wanted, 0)
        np.testing.assert_allclose(row, wanted.numpy(), rtol=1e-4, atol=1e-4)
