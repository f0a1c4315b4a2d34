"""The program of an application in this process: its function, variables and queues."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_functional_ops
from tensorflow.python.saved_model import function_deserialization

from ipufeed import _native
from ipufeed.applications.file import Application
from ipufeed.applications.signature import grouped
from ipufeed.applications.tracing import INFEED, INPUT, NUMBER, OUTFEED, VALUE, VARIABLE
from ipufeed.device.log import LOGGER
from ipufeed.executable.program.file_format import Entry
from ipufeed.executable.store import provided
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import FuncGraph, Nest, Tensor

# Calls that may wait for a program.
CAPACITY = 1024
# Prefix of the name of an infeed that waits for calls.
IDLE = "embedded_runtime "


def _is_news(record: logging.LogRecord) -> bool:
    """Filters log records: drops those on an engine that waits for its next call."""
    text = record.getMessage()
    return not (f"infeed queue '{IDLE}" in text and "' is empty" in text)


LOGGER.addFilter(_is_news)


def _connect_host_calls(application: Application) -> None:
    """Registers the functions that the program calls on the host, such as print_tensor."""
    calls = {
        node.op
        for function in application.functions().function
        for node in function.node_def
    }
    if "IpufeedHostCall" in calls:
        # These modules register functions when they are imported.
        from ipufeed.ops import host_calls, host_embedding, internal_ops

        del host_embedding, internal_ops
        host_calls.connect()


class Program:
    """Runs an application on an IPU, in eager mode.

    Args:
        application: The application.
        inputs: Values for the signature's inputs: the function's arguments, then its
            variables unless they are frozen. None: zeros, for compiling.
        name: The engine's name, for messages.

    Attributes:
        feeds: For each infeed, the tf.queue that supplies its elements.
        outfeeds: The IPUOutfeedQueues.
    """

    def __init__(
        self, application: Application, inputs: list[Tensor] | None, name: str = ""
    ) -> None:
        self._name = name
        self._application = application
        _connect_host_calls(application)
        functions = function_deserialization.load_function_def_library(
            application.functions()
        )
        self._function = functions[application.function]
        signature = application.signature
        if inputs is None:
            specs = [each.spec for each in signature.inputs]
            inputs = [tf.zeros(spec.shape, spec.dtype) for spec in specs]
        self._place = f"/device:IPU:{application.ordinal}"
        of_arguments = sum(each.handle.startswith(INPUT) for each in signature.inputs)
        self._inputs = inputs[:of_arguments]
        values = application.variables or inputs[of_arguments:]
        with tf.device(self._place):
            self._variables = [tf.Variable(value) for value in values]
        self.feeds: list[tf.queue.FIFOQueue] = []
        self._infeeds: list[IPUInfeedQueue] = []
        self.outfeeds: list[IPUOutfeedQueue] = []
        for feeds in grouped(signature.streamed_inputs):
            self._add_infeed([feed.spec for feed in feeds])
        for feeds in grouped(signature.streamed_outputs):
            queue = IPUOutfeedQueue(device_ordinal=application.ordinal)
            queue._reader.add(tuple(feed.spec for feed in feeds))
            self.outfeeds.append(queue)
        self._call = self._function_of_program()

    def _add_infeed(self, specs: list[tf.TensorSpec]) -> None:
        with tf.device("/device:CPU:0"):
            feed = tf.queue.FIFOQueue(
                CAPACITY, [spec.dtype for spec in specs], [spec.shape for spec in specs]
            )

        def next_element(_: Tensor) -> tuple[Tensor, ...]:
            # With one component, dequeue returns the tensor itself.
            element = feed.dequeue()
            return tuple(element) if isinstance(element, list) else (element,)

        dataset = tf.data.Dataset.counter().map(next_element)
        self.feeds.append(feed)
        self._infeeds.append(
            IPUInfeedQueue(
                dataset,
                device_ordinal=self._application.ordinal,
                _internal_id=IDLE + self._name,
            )
        )

    def _function_of_program(self) -> FuncGraph:
        """Returns a tf.function that compiles the application's function as a program."""
        function, outputs = self._function, self._application.signature.outputs
        types = [feed.spec.dtype for feed in outputs]

        def program(*arguments: Tensor) -> Nest:
            function.add_to_graph(tf.compat.v1.get_default_graph())
            handles = [
                each.handle if isinstance(each, tf.Variable) else each
                for each in arguments
            ]
            results = gen_functional_ops.stateful_partitioned_call(
                args=handles, Tout=types, f=function
            )
            return results if types else []  # without results it is an operation

        program.__name__ = provided.PREFIX + self._application.name
        return tf.function(program, jit_compile=True, autograph=False)

    def _argument(self, kind: str, number: int) -> Tensor:
        if kind == INPUT:
            return tf.convert_to_tensor(self._inputs[number])
        if kind == VARIABLE:
            return self._variables[number]
        if kind == VALUE:
            return tf.convert_to_tensor(self._application.captured[number])
        if kind not in (INFEED, OUTFEED, NUMBER):
            raise ValueError(f"An application has no argument of kind {kind!r}.")
        queues: Any = {INFEED: self._infeeds, OUTFEED: self.outfeeds}.get(kind)
        with tf.device("/device:CPU:0"):
            value = number if queues is None else queues[number]._number
            return tf.constant(value, tf.int64)

    def open(self) -> None:
        """Starts the infeeds.

        Their elements are the calls: readers of other queues do not wait for the end of
        this program.
        """
        for queue in self._infeeds:
            queue.initializer  # noqa: B018 (a property that acts)
            _native.entry().ipufeed_infeed_serves(queue._number)

    def run(self) -> None:
        """Runs the program once, until its loop ends.

        Raises:
            tf.errors.OpError: The program's error.
        """
        arguments = [self._argument(*each) for each in self._application.arguments]
        with tf.device(self._place):
            self._call(*arguments)

    def close(self) -> None:
        """Ends waits for elements; the program then ends with an error."""
        for feed in self.feeds:
            feed.close(cancel_pending_enqueues=True)

    def delete_outfeeds(self) -> None:
        """Ends the streams of the outfeeds, also those that start later."""
        for queue in self.outfeeds:
            queue.deleter  # noqa: B018 (acts when it is read)

    def compile(self) -> list[Entry]:
        """Compiles the program without running it; returns the compiled programs.

        Raises:
            tf.errors.OpError: The compilation fails.
        """
        with provided.only_compiling() as entries:
            try:
                self.run()
            except tf.errors.OpError:
                if not entries or "application" not in str(entries[-1].header["name"]):
                    raise
        return entries
