"""The program of a pipelined model: stages made of its layers, and their queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ipufeed.keras.pipeline_state import NEEDS_COUNT, PipelineState
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue


@dataclass
class PipelinedProgram:
    """A pipeline, compiled, with the queues that it is bound to.

    Attributes:
        function: The tf.function, without arguments.
        infeed: It is started for each call with the call's dataset.
        outfeed: What the last stage gives, flat.
        pack: Makes logs or outputs of that.
        divisor: By what sums are divided.
        reduces: Whether the metrics of replicas are reduced on the device.
    """

    function: Any
    infeed: IPUInfeedQueue
    outfeed: IPUOutfeedQueue
    pack: Callable[[list[Any]], Any]
    divisor: int
    reduces: bool = False

    def begin(self, feed: Any) -> Any:
        """See programs.Program."""
        feed.start(self.infeed)
        return lambda strategy: strategy.run(self.function)

    def unpack(self, results: Any) -> Any:
        """See programs.Program: means, where sums were enqueued."""
        import tensorflow as tf

        flat = tf.nest.flatten(results)  # one tensor alone is not in a list
        if self.divisor > 1:
            flat = [each / self.divisor for each in flat]
        return self.pack(flat)

    def rows(self, execution: int) -> int:
        """See programs.Program."""
        return execution // self.divisor


def build(
    model: Any, state: Any, mode: str, dataset: Any, execution: int, name: str
) -> PipelinedProgram:
    """Builds the program of a mode for executions of this many steps.

    Args:
        model: The Keras model, which has been built.
        state: Its ModelState.
        mode: "fit", "evaluate" or "predict".
        dataset: Of the first call.
        execution: Steps of an execution.
        name: Of the program.

    Raises:
        ValueError: The accumulation was not set.
    """
    import tensorflow as tf

    from ipufeed.keras.pipeline.program import Stages

    own: PipelineState = state.pipeline
    if mode == "fit" and own.accumulation is None:
        raise ValueError(NEEDS_COUNT)
    count = own.accumulation if mode == "fit" else execution
    assert count is not None
    ordinal = state.strategy.device_ordinal
    infeed = IPUInfeedQueue(dataset, **{"device_ordinal": ordinal, **state.infeed})
    outfeed = IPUOutfeedQueue(device_ordinal=ordinal, **state.outfeed)
    names: list[str] = []
    packed: list[Any] = []

    def finish(outputs: Any, element: list[Any], losses: Any) -> Any:
        if mode == "predict":
            packed[:] = [outputs]
            return tf.nest.flatten(outputs)
        data = tf.nest.pack_sequence_as(dataset.element_spec, element)
        loss, logs = state.kit.finish_step(model, data, outputs, losses, mode)
        names[:] = list(logs)
        return [loss, *logs.values()] if mode == "fit" else list(logs.values())

    stages = Stages(
        own.graph,
        own.stages,
        dataset.element_spec,
        lambda element: state.kit.inputs(model, element),
        mode == "fit",
        finish,
    )

    sums = own.accumulate_outfeed and mode != "predict"
    of_mode = _of_training if mode == "fit" else _of_inference
    arguments = of_mode(model, state)

    def program() -> Any:
        return pipeline(
            stages.functions(),
            count,
            repeat_count=execution // count,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            device_mapping=own.device_mapping,
            accumulate_outfeed=sums,
            **arguments,
        )

    def pack(flat: list[Any]) -> Any:
        if mode == "predict":
            return tf.nest.pack_sequence_as(packed[0], flat)
        return dict(zip(names, flat, strict=True))

    program.__name__ = name
    return PipelinedProgram(
        tf.function(program, jit_compile=True, autograph=False),
        infeed,
        outfeed,
        pack,
        count if sums else 1,
    )


# Options that concern gradients, which inference has none of.
OF_TRAINING = (
    "gradient_accumulation_dtype",
    "gradient_accumulation_for_captured_grads",
    "offload_weight_update_variables",
    "replicated_optimizer_state_sharding",
    "weight_update_poplar_options",
)


def _of_training(model: Any, state: Any) -> dict[str, Any]:
    def optimize(loss: Any, *_: Any) -> OptimizerFunctionOutput:
        weights = [each.value for each in model.trainable_variables]
        return OptimizerFunctionOutput(model.optimizer, loss, variables=weights)

    return {
        **state.pipeline.options,
        "optimizer_function": optimize,
        "outfeed_mask": [True] + [False] * state.kit.number_of_logs(model),
        "reduction_method": state.pipeline.reduction,
    }


def _of_inference(model: Any, state: Any) -> dict[str, Any]:
    del model
    options = state.pipeline.options
    return {name: options[name] for name in options if name not in OF_TRAINING}
