"""A pipeline trains as the unsplit model does, whatever its schedule and its optimizer."""

import contextlib
import json
import logging
import sys

import children
import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S
from models import Pipelined, Trained, assert_equal, unsplit, v1
from replicated import configure, on

from ipufeed.device.program import compiler, executor
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.02),
    "keras sgd": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9),
    "keras adam": lambda: tf.keras.optimizers.Adam(0.02),
}


@pytest.mark.parametrize(
    ("kind", "layers", "optimizer"),
    [
        pytest.param(GROUPED, 2, "sgd", marks=pytest.mark.soak),
        (GROUPED, 3, "momentum"),
        (GROUPED, 4, "adam"),
        pytest.param(INTERLEAVED, 2, "adam", marks=pytest.mark.soak),
        (INTERLEAVED, 3, "sgd"),
        (INTERLEAVED, 4, "momentum"),
        (SEQUENTIAL, 2, "momentum"),
        pytest.param(SEQUENTIAL, 3, "adam", marks=pytest.mark.soak),
        (SEQUENTIAL, 4, "sgd"),
        (GROUPED, 2, "keras sgd"),
        (INTERLEAVED, 2, "keras adam"),
    ],
)
def test_a_pipeline_trains_as_the_unsplit_model(clean_system, kind, layers, optimizer):
    """Losses of all mini-batches, and weights after three executions in two programs."""
    configure(2 if layers == 2 else 4)
    count = 2 * layers
    model = Pipelined(
        OPTIMIZERS[optimizer], layers, count, pipeline_schedule=kind, repeat_count=3
    )

    assert_equal(model.train(), unsplit(OPTIMIZERS[optimizer], layers, count, 3))


@pytest.mark.parametrize("optimizer", ["momentum", "keras sgd", "keras adam"])
def test_an_optimizer_may_be_made_while_the_program_is_traced(clean_system, optimizer):
    """In the optimizer_function. Its state stays from one run to the next."""
    configure(2)
    model = Pipelined(OPTIMIZERS[optimizer], 2, 4, made_inside=True)
    runs = [model.train() for _ in range(3)]
    losses = np.concatenate([each.losses for each in runs])

    expected = unsplit(OPTIMIZERS[optimizer], 2, 4, 3)
    assert_equal(Trained(losses, runs[-1].weights), expected)


@pytest.mark.parametrize("in_scope", [False, True])
def test_a_keras_optimizer_of_the_scope_trains_on_the_executor(clean_system, in_scope):
    """Wherever the program is run: it is traced within a replica of the strategy."""
    configure(2)
    with executor.executor_scope("tensorflow"):
        model = Pipelined(OPTIMIZERS["keras sgd"], 2, 4)
        with model.strategy.scope() if in_scope else contextlib.nullcontext():
            trained = model.train()

    assert_equal(trained, unsplit(OPTIMIZERS["keras sgd"], 2, 4, 1))


def test_the_program_of_each_ipu_has_a_name_of_its_own(clean_system, caplog):
    """So that no log line reports that one program is compiled again and again."""
    configure(4)
    with caplog.at_level(logging.INFO, logger="ipufeed"):
        Pipelined(OPTIMIZERS["sgd"], 4, 16).train()  # a count of no other test

    for ipu in range(4):
        assert caplog.text.count(f"Compiled pipeline_ipu{ipu} in") == 1


@pytest.mark.parametrize(
    ("name", "expected"), [(None, "train_pipeline"), ("two/halves", "train_two_halves")]
)
def test_the_programs_of_the_ipus_are_called_after_the_one_around_them(
    clean_system, caplog, name, expected
):
    """So that unrelated pipelines are not versions of one program."""
    configure(2)

    def program_of(*shape):
        data = tf.data.Dataset.from_tensors(np.ones(shape, np.float32)).repeat()
        infeed, outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()
        stages = [lambda y: y + 1.0, lambda y: y * 2.0]

        def train():
            return pipeline(
                stages, 4, infeed_queue=infeed, outfeed_queue=outfeed, name=name
            )

        return infeed, train

    size = len(expected)  # makes programs that no other test has
    with caplog.at_level(logging.INFO, logger="ipufeed"):
        infeed, train = program_of(size)
        infeed.initializer  # noqa: B018, in eager mode it is what starts the feed
        IPUStrategy().run(tf.function(train, jit_compile=True))
        with tf.Graph().as_default(), v1.Session() as session:
            infeed, train = program_of(2, size)
            with ipu_scope("/device:IPU:0"):
                program = compiler.compile(train)
            session.run(infeed.initializer)
            session.run(program)

    for ipu in range(2):
        assert caplog.text.count(f"Compiled {expected}_ipu{ipu} in") == 2


VERSION_1 = """
import json, sys
import ipufeed.compat
ipufeed.compat.install()
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import ipu_compiler, ipu_infeed_queue, ipu_outfeed_queue
from tensorflow.python.ipu import pipelining_ops, scopes
from tensorflow.python.ipu.config import IPUConfig

tf.disable_v2_behavior()
config = IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
optimizer = eval(sys.argv[1])
ones = tf.data.Dataset.from_tensors(1.0).repeat()
infeed = ipu_infeed_queue.IPUInfeedQueue(ones)
outfeed = ipu_outfeed_queue.IPUOutfeedQueue()

def first(x):
    return x

def second(x):
    return -x * tf.get_variable("w", [], initializer=tf.zeros_initializer())

def train(loss):
    return pipelining_ops.OptimizerFunctionOutput(
        optimizer, loss, variables=tf.trainable_variables()
    )

def model():
    return pipelining_ops.pipeline(
        [first, second], 4, infeed_queue=infeed, outfeed_queue=outfeed,
        optimizer_function=train,
    )

with scopes.ipu_scope("/device:IPU:0"):
    program = ipu_compiler.compile(model)
found = []
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(infeed.initializer)
    (weight,) = [each for each in tf.trainable_variables() if each.name == "w:0"]
    for _ in range(3):
        session.run(program)
        found.append(float(session.run(weight)))
print(json.dumps(found))
"""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(
    ("optimizer", "weights"),
    [
        # A gradient of -4 each time.
        ("tf.keras.optimizers.SGD(1.0, momentum=0.9)", [4, 11.6, 22.44]),
        ("tf.keras.optimizers.Adam(1.0)", [1, 2, 3]),
    ],
)
def test_keras_optimizers_update_in_their_own_order_in_version_1(optimizer, weights):
    """They read what they have just assigned, and version 1 would read it before."""
    done = children.run(
        [sys.executable, "-c", VERSION_1, optimizer],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == pytest.approx(weights, rel=1e-4)


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.usefixtures("clean_system")
def test_a_keras_optimizer_may_be_made_in_the_optimizer_function(style):
    """Its state is made outside of the program: it goes on with the next execution."""
    with on(2, style) as ready:
        weight = ready.variable(np.float32(2.0), "weight")
        outfeed = IPUOutfeedQueue()

        def net(x):
            return pipeline(
                [lambda x: x * weight, lambda x: x + 1.0],
                4,
                repeat_count=2,
                inputs=[x],
                outfeed_queue=outfeed,
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    tf.keras.optimizers.SGD(0.1, momentum=0.9), loss, variables=[weight]
                ),
            )

        ready.run(net, np.float32(1.0))

        # Gradients of 4 in two updates: 0.4, and 0.9 * 0.4 + 0.4.
        assert ready.read(weight) == pytest.approx(2.0 - 0.4 - 0.76)


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("only", [False, True])
@pytest.mark.usefixtures("clean_system")
def test_a_variable_that_the_loss_does_not_use_has_a_gradient_of_zeros(style, only):
    """So its momentum decays, as the original's: a stage is one function."""
    with on(2, style) as ready:
        outfeed = IPUOutfeedQueue()
        used = ready.variable(np.float32(2.0), "used")
        seen = ready.variable(np.float32(3.0), "seen")
        applied = []

        class Recording(v1.train.GradientDescentOptimizer):
            def apply_gradients(self, pairs, *arguments, **keywords):
                pairs = list(pairs)
                applied[:] = [variable.name for gradient, variable in pairs]
                assert all(gradient is not None for gradient, _ in pairs)
                return super().apply_gradients(pairs, *arguments, **keywords)

        def net(x):
            return pipeline(
                [lambda x: (x * used, x * seen), lambda x, y: (x + 1.0, y)],
                4,
                inputs=[x],
                outfeed_queue=outfeed,
                optimizer_function=lambda x, y: OptimizerFunctionOutput(
                    Recording(0.1),
                    x,
                    compute_gradients_kwargs={
                        "var_list": [seen] if only else [used, seen]
                    },
                ),
            )

        ready.run(net, np.float32(1.0))

        assert applied == [each.name for each in ([seen] if only else [used, seen])]
        assert ready.read(seen) == 3.0
        expected = 2.0 if only else 2.0 - 0.1 * 4
        assert ready.read(used) == pytest.approx(expected)


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("as_handle", [False, True], ids=["variable", "handle"])
@pytest.mark.usefixtures("clean_system")
def test_a_variable_among_the_inputs_is_passed_by_value(style, as_handle, caplog):
    """With a warning that names it."""
    with on(2, style) as ready:
        outfeed = IPUOutfeedQueue()
        weight = ready.variable(np.float32(2.0), "passed")
        ready.run(
            lambda x: pipeline(
                [lambda x, y: x * y, lambda x: x + 1.0],
                2,
                inputs=[x, weight.handle if as_handle else weight],
                outfeed_queue=outfeed,
            ),
            np.float32(3.0),
        )

        assert ready.read(outfeed.dequeue()).tolist() == [7.0, 7.0]
    (message,) = [each for each in caplog.messages if "by value" in each]
    if not as_handle:
        assert message == f"Passing tensor {weight.name} by value."


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.usefixtures("clean_system")
def test_a_list_of_one_output_stays_a_list_in_inference(style, bare):
    """A tensor alone is a tensor."""
    with on(2, style) as ready:
        outfeed = IPUOutfeedQueue()
        last = (lambda x: x + 1.0) if bare else (lambda x: [x + 1.0])
        ready.run(
            lambda x: pipeline(
                [lambda x: x * 2.0, last], 2, inputs=[x], outfeed_queue=outfeed
            ),
            np.float32(3.0),
        )
        results = ready.read(outfeed.dequeue())

    assert isinstance(results, list) is not bare
    assert np.asarray(results if bare else results[0]).tolist() == [7.0, 7.0]
