"""Losses in the log while a session trains, in TensorFlow 1.

    session.run(train) x 6 --> hook.log(loss) in the program --> a line after runs 1, 3, 5

The hook has an outfeed of its own: the program gives it the loss of each step, and
MonitoredSession asks it after each run. A second hook has the whole run's losses at the
end. popdist and the raw operation are asked as programs of several processes do; alone
there is one process, and no events. Prints:

    events 0
    lines 4
    losses of all steps 24
    processes 1
"""

import popdist
import tensorflow.compat.v1 as tf
from tensorflow.compiler.plugin.poplar.ops import gen_ipu_ops
from tensorflow.python.ipu import ipu_compiler, ipu_session_run_hooks, loops, scopes
from tensorflow.python.ipu.config import IPUConfig

tf.disable_v2_behavior()

config = IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

STEPS = 4
hook_class = ipu_session_run_hooks.IPULoggingTensorHook
last_loss = hook_class(every_n_iter=2, formatter=lambda values: str(values["loss"]))
all_losses = hook_class(
    at_end=True,
    logging_mode=hook_class.LoggingMode.ALL,
    formatter=lambda values: str(len(values["loss"])),
)


# The distance of one weight from 3: gradient descent halves it in each step.
def step():
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    loss = (weight - 3.0) ** 2
    train = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
    return train, last_loss.log({"loss": loss}), all_losses.log({"loss": loss})


with scopes.ipu_scope("/device:IPU:0"):
    run_loop = ipu_compiler.compile(lambda: loops.repeat(STEPS, step, []), [])
with tf.device("cpu"):
    events = gen_ipu_ops.ipu_event_trace()

lines = []
tf.logging.info = lines.append  # a program would have them in its log
hooks = [last_loss, all_losses]
with tf.train.MonitoredSession(hooks=hooks) as session:
    for _ in range(6):
        session.run(run_loop)
with tf.Session() as session:
    print("events", len(session.run(events)))

losses = [float(line) for line in lines[:3]]
assert losses == sorted(losses, reverse=True)
print("lines", len(lines))
print("losses of all steps", lines[-1])
print("processes", popdist.getNumInstances())
