"""How what a pipeline gives is accumulated over the mini-batches of an execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ipufeed.parallel.optimizers.dtypes import dtype_of
from ipufeed.parallel.optimizers.reduction_method import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.pipeline import weight_update
from ipufeed.parallel.pipeline.plan import Accumulation
from ipufeed.parallel.pipeline.traced import Model

# What a user calls the dtypes of the two kinds of sums.
GRADIENTS = "gradient_accumulation_dtype"
OUTPUTS = "accumulate_outfeed_dtype"


@dataclass(frozen=True)
class Sums:
    """What `pipeline` knows about it.

    Attributes:
        count: Mini-batches: an int, or an int32 scalar.
        reduction: Of gradients.
        gradient_dtype: Of their sums: a DType, a function of the variable, or None for
            that of each gradient.
        accumulates_captured: Whether captured gradients are accumulated as well.
        output_dtype: Of outputs' sums: a DType, a function of the tensor, or None for that
            of each.
    """

    count: Any
    reduction: Reduction
    gradient_dtype: Any
    accumulates_captured: bool
    output_dtype: Any

    def dtype_of_gradient(self, variable: Any, gradient: Any) -> Any:
        """Of a gradient's sum."""
        return dtype_of(
            self.gradient_dtype, variable, gradient.dtype, GRADIENTS, "variable"
        )

    def of_gradients(self, model: Model) -> list[Accumulation]:
        """How each gradient of a variable is accumulated."""
        update = self.reduce()
        return [
            Accumulation(self.dtype_of_gradient(variable, gradient), update)
            for gradient, variable in model.gradients
            if gradient is not None
        ]

    def of_captured(
        self, model: Model
    ) -> dict[tuple[str, int], tuple[Any, Accumulation]]:
        """The captured gradients that are results of the pipeline."""
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
        # A function of the variable does not cover these.
        wanted = None if callable(self.gradient_dtype) else self.gradient_dtype
        update = self.reduce()
        return {
            tag: (each, Accumulation(each.dtype if wanted is None else wanted, update))
            for tag, each in model.captured.items()
        }

    def of_output(self, tensor: Any) -> Accumulation:
        """How a value of the outfeed is accumulated: it is summed."""
        dtype = dtype_of(self.output_dtype, tensor, tensor.dtype, OUTPUTS, "tensor")
        return Accumulation(dtype, lambda total, value, _: total + value)

    def reduce(self) -> Callable[[Any, Any, Any], Any]:
        """The reduction method, as an Accumulation has it."""
        import tensorflow as tf

        count = self.count

        def added(total: Any, value: Any, mini_batch: Any) -> Any:
            del mini_batch
            return total + value

        def scaled(total: Any, value: Any, mini_batch: Any) -> Any:
            del mini_batch
            return total + value * tf.cast(1 / count, value.dtype)

        def running(total: Any, value: Any, mini_batch: Any) -> Any:
            number = tf.cast(mini_batch, value.dtype)
            return total * (number / (number + 1)) + value / (number + 1)

        return {
            Reduction.SUM: added,
            Reduction.MEAN: scaled,
            Reduction.RUNNING_MEAN: running,
        }[self.reduction]


def last_value(tensor: Any) -> Accumulation:
    """Only the last mini-batch's value counts."""
    return Accumulation(tensor.dtype, lambda total, value, mini_batch: value)
