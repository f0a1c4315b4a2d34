"""What the outfeed of a pipeline carries, in each style of writing the program."""

import numpy as np
import pytest
import tensorflow as tf
from pipeline_arguments import V1
from replicated import on

from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues import IPUOutfeedQueue

pytestmark = [pytest.mark.usefixtures("clean_system"), pytest.mark.long]

XS = [0.0, 1.0, 2.0, 3.0]
TENSOR, PAIR = (lambda x: x + 1.0), (lambda x: (x + 1.0, x + 2.0))
DICT, THREE = (lambda x: {"a": x + 1.0}), (lambda x: (x, x + 1.0, x + 2.0))
ONE, TWO = [1.0, 3.0, 5.0, 7.0], [2.0, 4.0, 6.0, 8.0]  # the first stage doubles
SUMS = {"accumulate_outfeed": True}

# The last stage, other arguments of the pipeline, and what its outfeed carries. In
# inference a tensor and a list of one: see test_pipeline.py.
TRAINING = {
    "a tensor": (TENSOR, {}, [ONE]),
    "a dict": (DICT, {}, [{"a": ONE}]),
    "one behind a mask": (PAIR, {"outfeed_mask": [True, False]}, [TWO]),
    "two behind a mask": (THREE, {"outfeed_mask": [True, False, False]}, [ONE, TWO]),
    "the loss": (PAIR, {"outfeed_loss": True}, [10 * x for x in ONE]),
    "sums": (PAIR, SUMS, [[16.0], [20.0]]),
    "the sum of the loss": (PAIR, {**SUMS, "outfeed_loss": True}, [160.0]),
}
INFERENCE = {
    "a dict": (DICT, {}, {"a": ONE}),
    "a pair": (PAIR, {}, [ONE, TWO]),
    "sums": (TENSOR, SUMS, [[16.0]]),
}


def optimizer_function(*outputs):
    return OptimizerFunctionOutput(V1["opt"](), tf.nest.flatten(outputs)[0] * 10.0)


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize(
    ("case", "trains"),
    [*((each, True) for each in TRAINING), *((each, False) for each in INFERENCE)],
)
def test_the_outfeed_carries_a_list_or_what_is_alone(case, trains, style):
    """Training and sums a list, but for the loss; each leaf has the mini-batches first."""
    last, arguments, expected = (TRAINING if trains else INFERENCE)[case]
    if trains:
        arguments = {**arguments, "optimizer_function": optimizer_function}
    with on(2, style) as ready:
        infeed = ready.feed(lambda: tf.data.Dataset.from_tensor_slices(np.float32(XS)))
        outfeed = IPUOutfeedQueue()
        weight = ready.variable(np.float32(2.0), "weight")
        ready.run(
            lambda: pipeline(
                [lambda x: x * weight, last],
                4,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                **arguments,
            )
        )
        results = ready.read(outfeed.dequeue())

    assert tf.nest.map_structure(lambda each: each.tolist(), results) == expected


def test_a_mask_of_all_outputs_is_named_by_the_dequeue_of_a_graph():
    """In eager mode the result is an empty list, as before any enqueue."""
    with on(2, "graph") as ready:
        outfeed = IPUOutfeedQueue()
        weight = ready.variable(np.float32(2.0), "weight")
        ready.build(
            lambda x: pipeline(
                [lambda x: x * weight, PAIR],
                4,
                inputs=[x],
                outfeed_queue=outfeed,
                optimizer_function=optimizer_function,
                outfeed_mask=[True, True],
            ),
            np.float32(1.0),
        )
        with pytest.raises(
            ValueError,
            match=r"which has not been enqueued\. .* outfeed_mask=\[True, True\]: give Fal",
        ):
            outfeed.dequeue()
