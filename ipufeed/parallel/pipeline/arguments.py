"""The arguments of a pipeline: checked together, before anything is built of them.

`pipeline` itself, the spec of an IPUPipelineEstimator, an exported pipeline and a Keras
model's pipelining options are checked by `Given.checked`, in the order of Graphcore's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ipufeed.checks import check_flag, check_name
from ipufeed.device.system import system
from ipufeed.parallel.optimizers.arguments import (
    AccumulatorDType,
    check_dtype,
    check_sharded_state,
)
from ipufeed.parallel.optimizers.arguments import (
    GradientAccumulationReductionMethod as Reduction,
)
from ipufeed.parallel.pipeline import checks, option_checks
from ipufeed.parallel.pipeline.options import RecomputationMode
from ipufeed.parallel.pipeline.schedules import PipelineSchedule, Schedule
from ipufeed.parallel.pipeline.sums import GRADIENTS, OUTPUTS
from ipufeed.tf_types import Tensor

# In place of `computational_stages`: they are not known yet, nor is their number.
NOT_YET = object()


@dataclass(frozen=True, kw_only=True)
class Given:
    """The arguments of `pipeline` as they are given, with its defaults."""

    computational_stages: Any
    gradient_accumulation_count: Any
    gradient_accumulation_dtype: Any = None
    gradient_accumulation_for_captured_grads: bool = True
    repeat_count: Any = 1
    batch_serialization_iterations: Any = 1
    inputs: Any = None
    infeed_queue: Any = None
    outfeed_queue: Any = None
    optimizer_function: Any = None
    device_mapping: Any = None
    pipeline_schedule: Any = None
    recomputation_mode: Any = None
    forward_propagation_stages_poplar_options: Any = None
    backward_propagation_stages_poplar_options: Any = None
    weight_update_poplar_options: Any = None
    offload_weight_update_variables: bool | None = None
    replicated_optimizer_state_sharding: bool = False
    offload_activations: bool | None = None
    offload_gradient_accumulation_buffers: bool | None = None
    replicated_weight_sharding: bool | None = None
    offload_weights: bool | None = None
    continuous_weight_updates: bool = False
    outfeed_loss: bool = False
    accumulate_outfeed: bool = False
    accumulate_outfeed_dtype: Any = None
    outfeed_mask: Any = None
    reduction_method: Any = Reduction.SUM
    name: Any = None

    def checked(self) -> Checked:
        """Checks all arguments but `inputs`, alone and together.

        Raises:
            TypeError: An argument is of another type.
            ValueError: Its value is wrong, or does not fit another argument's.
            NotImplementedError: The schedule does not support a combination.
        """
        self._check_flags()
        check_name(self.name)
        count = checks.check_mini_batches(self.gradient_accumulation_count)
        repeats = checks.check_count(self.repeat_count, "repeat_count", least=1)
        serialization = checks.check_count(
            self.batch_serialization_iterations,
            "batch_serialization_iterations",
            least=1,
        )
        option_checks.check_optimizer_function(self.optimizer_function)
        method = Reduction.parse(self.reduction_method)
        reduction = method if self.trains else Reduction.SUM
        option_checks.check_update(
            self.continuous_weight_updates, serialization, reduction
        )
        kind = checks.check_schedule(self.pipeline_schedule, serialization)
        mode = checks.check_recomputation(self.recomputation_mode, kind)
        stages, mapping = self._checked_stages(kind, serialization)
        self._check_poplar_options(stages)
        option_checks.check_outfeed_options(
            self.outfeed_queue,
            self.trains,
            self.outfeed_loss,
            self.accumulate_outfeed,
            self.outfeed_mask,
        )
        gradient_dtype = check_dtype(self.gradient_accumulation_dtype, GRADIENTS)
        output_dtype = check_dtype(self.accumulate_outfeed_dtype, OUTPUTS, "tensor")
        offload_state = _offloads(self.offload_weight_update_variables)
        check_sharded_state(self.replicated_optimizer_state_sharding, offload_state)
        return Checked(
            stages,
            count,
            repeats,
            serialization,
            Schedule(kind, checks.without_all_devices(mapping), self.trains),
            mode,
            method,
            gradient_dtype,
            output_dtype,
            offload_state,
        )

    @property
    def trains(self) -> bool:
        """Whether the pipeline has gradients."""
        return self.optimizer_function is not None

    def _check_flags(self) -> None:
        for field in fields(self):
            if field.type in ("bool", "bool | None"):
                or_none = "None" in field.type
                check_flag(field.name, getattr(self, field.name), or_none)

    def _checked_stages(
        self, kind: PipelineSchedule, serialization: int
    ) -> tuple[checks.Stages, checks.Mapping]:
        """Checks stages, queues and IPUs; returns the stages and their mapping."""
        if self.computational_stages is NOT_YET:
            option_checks.check_queues(self.infeed_queue, self.outfeed_queue)
            return [], ()
        stages = checks.check_stages(self.computational_stages)
        option_checks.check_queues(self.infeed_queue, self.outfeed_queue)
        checks.check_number_of_stages(stages)
        mapping = checks.check_mapping(self.device_mapping, stages, serialization > 1)
        checks.check_devices(mapping, kind, serialization, self.trains)
        return stages, mapping

    def _check_poplar_options(self, stages: checks.Stages) -> None:
        for name in ("forward", "backward"):
            name += "_propagation_stages_poplar_options"
            given = getattr(self, name)
            number = len(stages)
            if self.computational_stages is NOT_YET:
                number = len(given) if isinstance(given, (list, tuple)) else 0
            option_checks.check_stage_options(name, given, number)
        option_checks.check_weight_update_options(self.weight_update_poplar_options)

    def warn_of_no_effect(self, checked: Checked) -> None:
        """Warns once of each given argument that has no effect here."""
        has_options = option_checks.has_options
        option_checks.warn_of_no_effect(
            recomputation_mode=checked.mode is not RecomputationMode.Auto,
            forward_propagation_stages_poplar_options=has_options(
                self.forward_propagation_stages_poplar_options
            ),
            backward_propagation_stages_poplar_options=has_options(
                self.backward_propagation_stages_poplar_options
            ),
            weight_update_poplar_options=has_options(self.weight_update_poplar_options),
            replicated_optimizer_state_sharding=bool(
                self.replicated_optimizer_state_sharding
            ),
            offload_activations=self.offload_activations is not None,
            offload_gradient_accumulation_buffers=(
                self.offload_gradient_accumulation_buffers is not None
            ),
            replicated_weight_sharding=self.replicated_weight_sharding is not None,
            offload_weights=self.offload_weights is not None,
            accumulate_outfeed_dtype=(
                self.accumulate_outfeed_dtype is not None
                and not self.accumulate_outfeed
            ),
        )
        if not self.trains:
            option_checks.warn_of_no_effect_on_inference(
                gradient_accumulation_dtype=self.gradient_accumulation_dtype
                is not None,
                gradient_accumulation_for_captured_grads=(
                    not self.gradient_accumulation_for_captured_grads
                ),
                offload_weight_update_variables=bool(
                    self.offload_weight_update_variables
                ),
                reduction_method=checked.method is not Reduction.SUM,
            )


@dataclass(frozen=True)
class Checked:
    """What the arguments of a pipeline determine.

    Attributes:
        stages: Of each stage, its concurrent functions.
        count: The mini-batches: an int, or a scalar integer tensor.
        repeats: The executions.
        serialization: The iterations of each stage for a mini-batch of the count.
        schedule: The schedule, with the IPU of each stage.
        mode: The recomputation mode.
        method: The reduction of gradients, also of a pipeline that has none.
        gradient_dtype: That of the gradients' accumulators, a function of it, or None.
        output_dtype: Likewise, of the sums of outputs.
        offload_state: Whether the optimizer's state is in the host's memory.
    """

    stages: checks.Stages
    count: int | Tensor
    repeats: int
    serialization: int
    schedule: Schedule
    mode: RecomputationMode
    method: Reduction
    gradient_dtype: AccumulatorDType
    output_dtype: AccumulatorDType
    offload_state: bool


def _offloads(wanted: bool | None) -> bool:
    """Whether the optimizer's state is offloaded; by default if the device can."""
    return system.has_remote_buffers() if wanted is None else bool(wanted)
