"""The two styles in which programs are written, and the two modes that run them.

graph        TensorFlow 1: a Graph, ipu_compiler.compile in an ipu_scope, a Session, and
             what tf.disable_v2_behavior() changes in a graph
function     TensorFlow 2: a tf.function that IPUStrategy.run runs, eager mode around it

A test that takes the fixture `style` runs in each of them. It writes its program once:

    infeed = style.feed(lambda: tf.data.Dataset.range(9))
    results = style.run(net, 1.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.device.program import compiler, loops
from ipufeed.device.program import executor as params
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import IPUInfeedQueue

v1 = tf.compat.v1


class GraphStyle:
    """TensorFlow 1."""

    def __init__(self, use_while_v1: bool) -> None:
        self.use_while_v1 = use_while_v1
        self.session = v1.Session()
        self.initialized: set[str] = set()

    def feed(self, make_dataset: Callable[[], Any], **arguments: Any) -> IPUInfeedQueue:
        """Returns an infeed queue whose initializer has run."""
        queue = IPUInfeedQueue(make_dataset(), **arguments)
        self.session.run(queue.initializer)
        return queue

    def variable(self, value: Any, name: str) -> Any:
        with ipu_scope("/device:IPU:0"):
            return v1.get_variable(name, initializer=tf.constant(value))

    def repeat(self, *args: Any, **kwargs: Any) -> Any:
        return loops.repeat(*args, **kwargs, use_while_v1=self.use_while_v1)

    def while_loop(self, *args: Any, **kwargs: Any) -> Any:
        return loops.while_loop(*args, **kwargs, use_while_v1=self.use_while_v1)

    def build(self, net: Callable[..., Any], *values: Any) -> Callable[..., Any]:
        """Compiles `net`, with placeholders like `values`; gives what runs it."""
        arrays = [as_array(value) for value in values]
        with tf.device("cpu"):
            inputs = [v1.placeholder(each.dtype, each.shape) for each in arrays]
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(net, inputs)

        def run(*values: Any) -> Any:
            self.initialize()
            return self.session.run(program, dict(zip(inputs, values, strict=True)))

        return run

    def initialize(self) -> None:
        """Initialises the variables that are new."""
        new = [v for v in v1.global_variables() if v.name not in self.initialized]
        self.session.run(v1.variables_initializer(new))
        self.initialized |= {variable.name for variable in new}

    def run(self, net: Callable[..., Any], *values: Any) -> Any:
        return self.build(net, *values)(*values)

    def read(self, tensors: Any) -> Any:
        """Returns the arrays of a dequeue, or of a variable."""
        return self.session.run(tensors)


class FunctionStyle:
    """TensorFlow 2."""

    def __init__(self) -> None:
        self.strategy = IPUStrategy()

    def feed(self, make_dataset: Callable[[], Any], **arguments: Any) -> IPUInfeedQueue:
        """Returns an infeed queue whose initializer has run."""
        queue = IPUInfeedQueue(make_dataset(), **arguments)
        _ = queue.initializer
        return queue

    def variable(self, value: Any, name: str) -> Any:
        with self.strategy.scope():
            return tf.Variable(value, name=name)

    def repeat(self, *args: Any, **kwargs: Any) -> Any:
        return loops.repeat(*args, **kwargs)

    def while_loop(self, *args: Any, **kwargs: Any) -> Any:
        return loops.while_loop(*args, **kwargs)

    def build(self, net: Callable[..., Any], *values: Any) -> Callable[..., Any]:
        """A tf.function of `net`; gives what runs it."""
        program = tf.function(net, jit_compile=True)

        def run(*values: Any) -> Any:
            inputs = [tf.constant(as_array(value)) for value in values]
            with self.strategy.scope():
                return self.read(self.strategy.run(program, inputs))

        return run

    def run(self, net: Callable[..., Any], *values: Any) -> Any:
        return self.build(net, *values)(*values)

    def read(self, tensors: Any) -> Any:
        """Returns the arrays of a dequeue, or of a variable."""
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), tensors)


STYLES = {
    "graph": lambda: GraphStyle(use_while_v1=True),
    "graph, while v2": lambda: GraphStyle(use_while_v1=False),
    "function": FunctionStyle,
}
CASES = [(style, executor) for style in STYLES for executor in params._EXECUTORS]
# For what is above loops, queues and faults: each style and each mode once.
TWO = [("graph", "tensorflow"), ("function", "xla")]


# What programs of version 1 begin with, tf.disable_v2_behavior(), sets these for the whole
# process; the rest of it cannot be undone (eager mode) or is the graph's (`tf.data`).
VERSION_1 = {
    v1.disable_v2_tensorshape: v1.enable_v2_tensorshape,
    v1.disable_tensor_equality: v1.enable_tensor_equality,
    v1.disable_resource_variables: v1.enable_resource_variables,
    v1.disable_control_flow_v2: v1.enable_control_flow_v2,
}


@contextmanager
def version_1_behavior() -> Iterator[None]:
    """Version 1's shapes, comparison of tensors, variables and control flow."""
    for disable in VERSION_1:
        disable()
    try:
        yield
    finally:
        for enable in VERSION_1.values():
            enable()


@contextmanager
def entered(style: str, executor: str) -> Iterator[Any]:
    """The style, ready for a program."""
    with ExitStack() as stack:
        stack.enter_context(params.executor_scope(executor))
        if style != "function":
            stack.enter_context(tf.Graph().as_default())
        if style == "graph":
            stack.enter_context(version_1_behavior())
        ready = STYLES[style]()
        if style != "function":
            stack.enter_context(ready.session)
        yield ready


def as_array(value: Any) -> np.ndarray:
    """Returns the array of a value; a float is a float32."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def only(results: Any) -> Any:
    """Returns the one result, which compile gives in a list and a function as it is."""
    if isinstance(results, list):
        (results,) = results
    return results
