"""Three stages of a model on three IPUs, trained with each of the three schedules.

    infeed -> stage 1 (IPU 0) -> stage 2 (IPU 1) -> stage 3 (IPU 2) -> loss
              <- gradients    <- gradients

The learning rate is an input that the stages hand on. Twelve mini-batches go through the
pipeline before the weights are updated once; ten times. Prints the loss of the first and
of the last time. All three schedules compute the same, so that the lines differ in their
first word only:

    Grouped loss 0.6876 -> 0.1056
    Interleaved loss 0.6876 -> 0.1056
    Sequential loss 0.6876 -> 0.1056

With a path as its argument the program writes the picture of one grouped execution there,
as it was executed: `python pipelined_training.py grouped.svg`.
"""

import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ipu import (
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    pipelining_ops,
    scopes,
)
from tensorflow.python.ipu.config import IPUConfig

tf.disable_v2_behavior()

MINI_BATCHES, EXECUTIONS = 12, 10

config = IPUConfig()
config.auto_select_ipus = 4  # a power of two; the fourth has nothing to do
config.configure_ipu_system()

random = np.random.default_rng(1)
X = random.standard_normal([48, 16, 32]).astype(np.float32)
Y = np.tanh(X[..., :8])


def dense(x, units, name):
    start = tf.glorot_uniform_initializer(seed=units)
    weights = tf.get_variable(name, [x.shape[-1], units], initializer=start)
    return tf.tanh(tf.matmul(x, weights))


def stage1(rate, x, y):
    return rate, dense(x, 64, "first"), y


def stage2(rate, x, y):
    return rate, dense(x, 48, "second"), y


def stage3(rate, x, y):
    return rate, tf.reduce_mean(tf.square(dense(x, 8, "third") - y))


def optimizer_function(rate, loss):
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)


def train(schedule):
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.Dataset.from_tensor_slices((X, Y)).repeat()
        infeed_queue = ipu_infeed_queue.IPUInfeedQueue(dataset)
        outfeed_queue = ipu_outfeed_queue.IPUOutfeedQueue()

        def net(rate):
            return pipelining_ops.pipeline(
                [stage1, stage2, stage3],
                gradient_accumulation_count=MINI_BATCHES,
                repeat_count=EXECUTIONS,
                inputs=[rate],
                infeed_queue=infeed_queue,
                outfeed_queue=outfeed_queue,
                optimizer_function=optimizer_function,
                outfeed_loss=True,
                pipeline_schedule=schedule,
                reduction_method="mean",
            )

        with tf.device("cpu"):
            rate = tf.placeholder(np.float32, [])
        with scopes.ipu_scope("/device:IPU:0"):
            run_pipeline = ipu_compiler.compile(net, inputs=[rate])
        dequeue_losses = outfeed_queue.dequeue()

        session.run(tf.global_variables_initializer())
        session.run(infeed_queue.initializer)
        session.run(run_pipeline, {rate: 0.2})
        losses = session.run(dequeue_losses)
        if schedule is pipelining_ops.PipelineSchedule.Grouped and sys.argv[1:]:
            from ipufeed.parallel import timeline

            with timeline.record() as executed:
                session.run(run_pipeline, {rate: 0.2})
            executed.write_svg(sys.argv[1])
        return losses


for schedule in pipelining_ops.PipelineSchedule:
    losses = train(schedule)
    first, last = losses[:MINI_BATCHES].mean(), losses[-MINI_BATCHES:].mean()
    print(f"{schedule.name} loss {first:.4f} -> {last:.4f}")
