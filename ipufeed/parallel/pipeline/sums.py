"""Accumulation of a pipeline's gradients and outputs over an execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from ipufeed.parallel.optimizers.arguments import (
    AccumulatorDType,
    dtype_of,
)
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.pipeline import weight_update
from ipufeed.parallel.pipeline.plan import Accumulation
from ipufeed.parallel.pipeline.traced import Model
from ipufeed.tf_types import DType, Tensor, Variable

# The arguments of the dtypes of both kinds of sums.
GRADIENTS = "gradient_accumulation_dtype"
OUTPUTS = "accumulate_outfeed_dtype"


@dataclass(frozen=True)
class Sums:
    """The accumulation options of a pipeline.

    Attributes:
        count: Mini-batches: an int, or an int32 scalar.
        reduction: The reduction of gradients.
        gradient_dtype: The dtype of their sums; None for that of each gradient.
        accumulates_captured: Whether captured gradients are accumulated as well.
        output_dtype: The dtype of the sums of outputs; None for that of each.
    """

    count: int | Tensor
    reduction: Reduction
    gradient_dtype: AccumulatorDType
    accumulates_captured: bool
    output_dtype: AccumulatorDType

    def dtype_of_gradient(self, variable: Variable, gradient: Tensor) -> DType:
        """Returns the dtype of a gradient's sum."""
        return dtype_of(
            self.gradient_dtype, variable, gradient.dtype, GRADIENTS, "variable"
        )

    def of_gradients(self, model: Model) -> list[Accumulation]:
        """Returns the accumulation of each gradient of a variable."""
        update = self._reduce()
        return [
            Accumulation(self.dtype_of_gradient(variable, gradient), update)
            for gradient, variable in model.gradients
            if gradient is not None
        ]

    def of_captured(
        self, model: Model
    ) -> dict[tuple[str, int], tuple[Tensor, Accumulation]]:
        """Returns the captured gradients that are results, with their accumulation."""
        output = model.optimizer
        assert output is not None
        queue = output.captured_gradient_outfeed
        enqueues = queue is not None and self.accumulates_captured
        if not enqueues and not weight_update.takes_captured(output):
            return {}
        if not self.accumulates_captured:
            return {
                tag: (each, last_value(each)) for tag, each in model.captured.items()
            }
        # A function of a variable does not apply to these.
        wanted = None if callable(self.gradient_dtype) else self.gradient_dtype
        update = self._reduce()
        return {
            tag: (each, Accumulation(each.dtype if wanted is None else wanted, update))
            for tag, each in model.captured.items()
        }

    def of_output(self, tensor: Tensor) -> Accumulation:
        """Returns the accumulation of an output of the outfeed: the sum."""
        dtype = dtype_of(self.output_dtype, tensor, tensor.dtype, OUTPUTS, "tensor")
        if dtype.is_bool:
            raise TypeError(
                "`accumulate_outfeed` adds the outputs of the last stage up, and output "
                f"{tensor.name} is of type bool, which has no sum. Cast it with tf.cast, "
                f"such as to int32, or give `{OUTPUTS}`."
            )
        return Accumulation(dtype, lambda total, value, _: total + value)

    def _reduce(self) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        count = self.count

        def added(total: Tensor, value: Tensor, mini_batch: Tensor) -> Tensor:
            del mini_batch
            return total + value

        def scaled(total: Tensor, value: Tensor, mini_batch: Tensor) -> Tensor:
            del mini_batch
            return total + value * tf.cast(1 / count, value.dtype)

        def running(total: Tensor, value: Tensor, mini_batch: Tensor) -> Tensor:
            number = tf.cast(mini_batch, value.dtype)
            return total * (number / (number + 1)) + value / (number + 1)

        return {
            Reduction.SUM: added,
            Reduction.MEAN: scaled,
            Reduction.RUNNING_MEAN: running,
        }[self.reduction]


def last_value(tensor: Tensor) -> Accumulation:
    """Returns the accumulation that keeps the last mini-batch's value."""
    return Accumulation(tensor.dtype, lambda total, value, mini_batch: value)
