"""export_keras: a Keras model as a SavedModel whose `predict` runs on an IPU.

A model with stages is exported as a pipeline of them, each other one as a single step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipufeed.applications.exporting import export_pipeline, export_single_step
from ipufeed.applications.serving_signature import SignatureArgument
from ipufeed.checks import as_count, flags_checked
from ipufeed.keras.pipeline.program import Stages
from ipufeed.keras.pipelined_program import check_depth
from ipufeed.keras.pipelining import resolve
from ipufeed.keras.state import ModelState
from ipufeed.tf_types import FuncGraph, KerasModel, Nest, NestFunction, Tensor


@flags_checked
def export_keras(
    model: KerasModel,
    export_dir: str | os.PathLike[str],
    batch_size: int | None = None,
    output_names: str | list[str] | None = None,
    preprocessing_step: NestFunction | None = None,
    preprocessing_step_signature: SignatureArgument = None,
    postprocessing_step: NestFunction | None = None,
    postprocessing_step_signature: SignatureArgument = None,
    purge_export_dir: bool = False,
) -> NestFunction:
    """Exports a Keras model that was made in the scope of an IPUStrategy.

    Args:
        model: The model.
        export_dir: See export_for_ipu_serving, as all other arguments.
        batch_size: The rows of a call.
        output_names: Names of the results.
        preprocessing_step: A function on the CPU that computes the model's inputs.
        preprocessing_step_signature: Its inputs.
        postprocessing_step: A function on the CPU of the model's outputs.
        postprocessing_step_signature: Its inputs.
        purge_export_dir: Whether to delete the content of `export_dir`.

    Returns:
        The tf.function `predict`, from tensors to a dict of tensors.

    Raises:
        ValueError: It is not such a model. See also export_for_ipu_serving.

    Source: Graphcore's function of this name.
    """
    export = getattr(model, "export_for_ipu_serving", None)
    if export is None:
        raise ValueError(
            "`model` must be a Keras model that was made in the scope of an IPUStrategy, "
            f"got {type(model).__name__}. serving.export_single_step exports a function."
        )
    exported: NestFunction = export(
        export_dir,
        batch_size,
        output_names,
        preprocessing_step,
        preprocessing_step_signature,
        postprocessing_step,
        postprocessing_step_signature,
        purge_export_dir,
    )
    return exported


@flags_checked
def export_for_ipu_serving(
    state: ModelState,
    model: KerasModel,
    export_dir: str | os.PathLike[str],
    batch_size: int | None = None,
    output_names: str | list[str] | None = None,
    preprocessing_step: NestFunction | None = None,
    preprocessing_step_signature: SignatureArgument = None,
    postprocessing_step: NestFunction | None = None,
    postprocessing_step_signature: SignatureArgument = None,
    purge_export_dir: bool = False,
) -> NestFunction:
    """Exports the model as `serving.export_single_step` or `export_pipeline` does.

    Args:
        state: The model's ModelState.
        model: The model.
        export_dir: The folder, which must be empty or missing.
        batch_size: The rows of a call. Default: those of the model's inputs; needed if
            they are not known.
        output_names: See serving.export_single_step, as the next five.
        preprocessing_step: A function on the CPU that computes the model's inputs.
        preprocessing_step_signature: Its inputs.
        postprocessing_step: A function on the CPU of the model's outputs.
        postprocessing_step_signature: Its inputs.
        purge_export_dir: Whether to delete the content of `export_dir`.

    Returns:
        The tf.function `predict`, from tensors to a dict of tensors.

    Raises:
        ValueError: The model has not been built, or a shape or the batch size is unknown.
        TypeError, ValueError: See serving.export_single_step.
    """
    specs, packed = _inputs(state, model, batch_size)
    zeros = packed([tf.zeros(spec.shape, spec.dtype) for spec in specs])
    resolve(model, state, (zeros,))
    iterations = state.kit.steps_per_execution(model)
    common: dict[str, Any] = {
        "export_dir": export_dir,
        "iterations": iterations,
        "predict_step_signature": specs,
        "output_names": output_names,
        "preprocessing_step": preprocessing_step,
        "preprocessing_step_signature": preprocessing_step_signature,
        "postprocessing_step": postprocessing_step,
        "postprocessing_step_signature": postprocessing_step_signature,
        "purge_export_dir": purge_export_dir,
    }
    own = state.pipeline
    if not own.is_on:
        return export_single_step(_step(model, packed), **common)
    check_depth(model, state, "predict", iterations)
    element = tf.nest.map_structure(
        lambda each: tf.TensorSpec.from_tensor(each), (zeros,)
    )
    functions = Stages(
        own.graph,
        own.stages,
        element,
        lambda given: state.kit.inputs(model, given),
        training=False,
        check=_accept,
        finish=lambda outputs, *_: tf.nest.flatten(outputs),
    ).functions()
    return export_pipeline(
        functions,
        device_mapping=own.device_mapping,
        pipeline_schedule=own.options.get("pipeline_schedule"),
        poplar_options=own.options.get("forward_propagation_stages_poplar_options"),
        **common,
    )


def _step(model: KerasModel, packed: Callable[[list[Tensor]], Nest]) -> NestFunction:
    def predict_step(*inputs: Tensor) -> Nest:
        return model(packed(list(inputs)), training=False)

    return predict_step


def _accept(graph: FuncGraph, results: Nest) -> None:
    """Accepts each stage: the compilation refuses operations that it lacks."""


def _inputs(
    state: ModelState, model: KerasModel, batch_size: int | None
) -> tuple[list[tf.TensorSpec], Callable[[list[Tensor]], Nest]]:
    """Returns the specs of the flat inputs, and what makes the argument of `call`.

    Raises:
        TypeError: The batch size is not an int.
        ValueError: The model has not been built, or a dimension is unknown.
    """
    symbolic = _symbolic(state, model)
    named = bool(getattr(model, "inputs", None))
    if symbolic is None:
        raise ValueError(
            f"The model {model.name} has not been built with one input of a known shape: "
            "build or call it first, or use serving.export_single_step(model, ...) with a "
            "predict_step_signature."
        )
    rows = None if batch_size is None else as_count("batch_size", batch_size)
    flat = tf.nest.flatten(symbolic)
    specs = []
    for place, each in enumerate(flat):
        shape = tf.TensorShape(each.shape).as_list()
        if shape and shape[0] is None:
            shape[0] = rows
        elif rows is not None and shape and shape[0] != rows:
            raise ValueError(
                f"`batch_size` is {rows}, and the model {model.name} was made for batches "
                f"of {shape[0]}: leave `batch_size` out, or make the model without one."
            )
        if None in shape:
            raise ValueError(
                f"Not all dimensions of inputs can be determined: input {place} of the "
                f"model {model.name} is {tuple(shape)}. Give `batch_size`, and inputs "
                "whose other dimensions are known."
            )
        name = re.sub(r"\W", "_", each.name) if named else f"input_{place}"
        specs.append(tf.TensorSpec(shape, each.dtype, name))

    def packed(values: list[Tensor]) -> Nest:
        return tf.nest.pack_sequence_as(symbolic, values)

    return specs, packed


def _symbolic(state: ModelState, model: KerasModel) -> Nest:
    """Returns the symbolic inputs in the structure of `call`; None if they are unknown."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        example = state.kit.example(model)
        return None if example is None else state.kit.x(example)
    functional = getattr(model, "_functional", None) or model
    nested = getattr(functional, "_inputs_struct", None)  # Keras 3
    nested = getattr(functional, "_nested_inputs", None) if nested is None else nested
    if isinstance(nested, dict):
        return nested
    return inputs[0] if len(inputs) == 1 else list(inputs)
