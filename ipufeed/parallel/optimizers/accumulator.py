"""Accumulators with the lifetime of a loop: state of a program, not of the model.

They are in no collection, so that savers, checkpoints and initializers do not see them. An
initial value is not needed: a sum begins with its first mini-batch. In a version 1 graph
a pass makes them before the program's first run (program_state.cc), which is then compiled
as later runs are. Where no program is compiled, zeros are written before the loop:
TensorFlow refuses to read a variable without a value.
"""

from __future__ import annotations

import tensorflow as tf

from ipufeed.device.program.training_loop import TrainingLoop
from ipufeed.parallel.optimizers.outside_variables import variables_outside
from ipufeed.tf_types import DType, Operation, Shape, Tensor

_v1 = tf.compat.v1


class Accumulator:
    """A sum over the iterations of a loop.

    Args:
        shape: The shape of the tensors that are summed.
        dtype: The dtype of the sum.
        loop: The loop whose body is being built.
        name: The name of its operations.
        device: Where it is placed. Default: where the program is being built.

    Threads: those of the program that is being built.
    """

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        loop: TrainingLoop,
        name: str,
        device: str | None = None,
    ) -> None:
        with variables_outside(), tf.init_scope(), tf.device(device):
            self._variable = _v1.Variable(
                initial_value=lambda: tf.zeros(shape, dtype),
                trainable=False,
                collections=[],
                use_resource=True,
                name=name,
                dtype=dtype,
                experimental_enable_variable_lifting=False,
            )
        if not tf.executing_eagerly():
            with tf.init_scope():
                is_initialized = tf.executing_eagerly()
            if not is_initialized:
                _mark_program_state(self._variable.handle.op)
                loop.at_start(lambda op: self._begin_with_zeros(op, shape, dtype))

    def _begin_with_zeros(self, before: Operation, shape: Shape, dtype: DType) -> None:
        """Adds the assignment of zeros as a control input of an op before the loop."""
        with before.graph.as_default(), tf.control_dependencies(None):
            context = before._get_control_flow_context()
            if context is not None:
                context.Enter()
            try:
                zeros = tf.zeros(shape, dtype)
                before._add_control_input(
                    self._variable.assign(zeros, read_value=False)
                )
            finally:
                if context is not None:
                    context.Exit()

    def value(self) -> Tensor:
        """Reads the sum so far."""
        return self._variable.read_value()

    def store(self, total: Tensor) -> list[Operation]:
        """Stores a sum; returns the operation, or nothing in eager mode."""
        stored = self._variable.assign(total, read_value=False)
        return [] if stored is None else [stored]


def _mark_program_state(handle: Operation) -> None:
    """Marks a variable's handle for program_state.cc."""
    handle._set_attr("_ipufeed_program_state", _v1.AttrValue(b=True))
