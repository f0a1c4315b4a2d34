"""serving: exports a step, or a pipeline, as a SavedModel whose `predict` runs on an IPU.

    predict(inputs) --preprocessing, CPU--> engine --postprocessing, CPU--> dict

The application's file is an asset of the SavedModel. Any process that has imported ipufeed
can load it with tf.saved_model.load; the first call starts the engine.
"""

from __future__ import annotations

import os
import reprlib
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipufeed.applications import compiling, file, saved_calls
from ipufeed.applications.runtime import DEFAULT_TIMEOUT_US
from ipufeed.applications.serving_signature import (
    SignatureArgument,
    Steps,
    check_called,
    check_output_names,
    output_names_of,
)
from ipufeed.checks import as_count, as_numbers, as_tensor, flags_checked
from ipufeed.device.program import loops
from ipufeed.device.system import system
from ipufeed.parallel.pipeline.arguments import Given
from ipufeed.parallel.pipeline.pipeline import StageOptions, pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule, Schedule, refusal
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import FuncGraph, Nest, NestFunction, Tensor


@flags_checked
def export_single_step(
    predict_step: NestFunction,
    export_dir: str,
    iterations: int,
    predict_step_signature: SignatureArgument = None,
    input_dataset: tf.data.Dataset | None = None,
    output_names: str | list[str] | None = None,
    preprocessing_step: NestFunction | None = None,
    preprocessing_step_signature: SignatureArgument = None,
    postprocessing_step: NestFunction | None = None,
    postprocessing_step_signature: SignatureArgument = None,
    purge_export_dir: bool = False,
) -> NestFunction:
    """Exports a function as a SavedModel, which runs it in a loop on the IPU.

        export_single_step(step, "model", iterations=1000,
                           predict_step_signature=[tf.TensorSpec([1, 4], tf.float32)])
        # in another process, after `import ipufeed`
        tf.saved_model.load("model").signatures["serving_default"](x=...)

    Args:
        predict_step: The step on the IPU, exported with its variables' present values.
        export_dir: The folder, which must be empty or missing.
        iterations: Iterations of the loop before the program is restarted; at least 1.
        predict_step_signature: A list or tuple of tf.TensorSpecs: the inputs of the first
            step (the preprocessing step, if given), named as the specs or, without
            names, as its parameters. Default: `input_dataset`, or the step's own
            `input_signature` if it is a tf.function.
        input_dataset: A dataset whose elements are the inputs of the first step.
        output_names: Names of the results, in place of `output_0` and so on: a str for
            one, or a list.
        preprocessing_step: A function on the CPU that computes the inputs of
            `predict_step`.
        preprocessing_step_signature: Its inputs. `predict_step` then needs its own
            `input_signature`, or `predict_step_signature`.
        postprocessing_step: A function on the CPU of the results of `predict_step`.
        postprocessing_step_signature: Its inputs. Default: the results of `predict_step`.
        purge_export_dir: Whether to delete the content of `export_dir`.

    Returns:
        The tf.function `predict`, from tensors to a dict of tensors.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: A signature is missing, given twice or does not fit; the folder is not
            empty.

    Threads: any. Several threads may call `predict`.

    Source: Graphcore's function of this name.
    """
    count = as_count("iterations", iterations)
    check_output_names(output_names)
    steps = Steps.of(
        predict_step,
        "predict_step",
        predict_step_signature,
        input_dataset,
        (preprocessing_step, preprocessing_step_signature),
        (postprocessing_step, postprocessing_step_signature),
    )
    folder = _checked_folder(export_dir, purge=purge_export_dir)
    infeed = _infeed_of(steps.specs)
    outfeed = IPUOutfeedQueue()

    def application() -> Nest:
        def body(*element: Tensor) -> Nest:
            return outfeed.enqueue(_flat(steps.step(*element), "predict_step"))

        return loops.repeat(count, body, [], infeed)

    application.__name__ = steps.name
    return _export(application, steps, folder, output_names, purge_export_dir)


@flags_checked
def export_pipeline(
    computational_stages: list[NestFunction],
    export_dir: str,
    iterations: int,
    inputs: Nest = None,
    device_mapping: list[int] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    poplar_options: StageOptions = None,
    name: str | None = None,
    predict_step_signature: SignatureArgument = None,
    input_dataset: tf.data.Dataset | None = None,
    output_names: str | list[str] | None = None,
    preprocessing_step: NestFunction | None = None,
    preprocessing_step_signature: SignatureArgument = None,
    postprocessing_step: NestFunction | None = None,
    postprocessing_step_signature: SignatureArgument = None,
    purge_export_dir: bool = False,
) -> NestFunction:
    """Exports the stages of a pipeline as a SavedModel.

    Args:
        computational_stages: The stages, exported with their variables' present values.
            The first takes `inputs`, then the tensors of the signature.
        export_dir: See export_single_step.
        iterations: Mini-batches of one run of the pipeline (its
            gradient_accumulation_count), as the schedule needs them.
        inputs: Values for the first stage's first arguments, exported with the model: a
            list, or a single one.
        device_mapping: The IPU of each stage; see pipelining_ops.pipeline.
        pipeline_schedule: See pipelining_ops.pipeline.
        poplar_options: See pipelining_ops.pipeline.
        name: See pipelining_ops.pipeline.
        predict_step_signature: The first stage's inputs after `inputs`.
        input_dataset: See export_single_step.
        output_names: See export_single_step.
        preprocessing_step: See export_single_step.
        preprocessing_step_signature: See export_single_step.
        postprocessing_step: See export_single_step.
        postprocessing_step_signature: See export_single_step.
        purge_export_dir: See export_single_step.

    Returns:
        The tf.function `predict`.

    Raises:
        TypeError: An argument is of another type.
        ValueError: See export_single_step.
        tf.errors.FailedPreconditionError: The schedule does not take `iterations`.

    Source: Graphcore's function of this name.
    """
    count = as_count("iterations", iterations)
    check_output_names(output_names)
    is_list = isinstance(computational_stages, (list, tuple))
    stages = list(computational_stages) if is_list else []
    if not stages or not all(map(callable, stages)):
        raise TypeError(
            "`computational_stages` must be a list of at least one function, got "
            f"{reprlib.repr(computational_stages)}."
        )
    values = _as_values(inputs)
    of_pipeline: dict[str, Any] = {
        "gradient_accumulation_count": count,
        "device_mapping": device_mapping,
        "pipeline_schedule": pipeline_schedule,
        "forward_propagation_stages_poplar_options": poplar_options,
        "name": name,
    }
    checked = Given(computational_stages=stages, **of_pipeline).checked()
    _check_iterations(count, checked.schedule)

    def through_all(*element: Tensor) -> Nest:
        results: Nest = (*values, *element)
        for stage in stages:
            given = results if isinstance(results, (list, tuple)) else [results]
            results = stage(*given)
        return results

    steps = Steps.of(
        through_all,
        "computational_stages",
        predict_step_signature,
        input_dataset,
        (preprocessing_step, preprocessing_step_signature),
        (postprocessing_step, postprocessing_step_signature),
        named_by=stages[0],
        skip=len(values),
    )
    folder = _checked_folder(export_dir, purge=purge_export_dir)
    infeed = _infeed_of(steps.specs)
    outfeed = IPUOutfeedQueue()

    def application() -> Nest:
        return pipeline(
            stages,
            inputs=values,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            **of_pipeline,
        )

    application.__name__ = steps.name
    return _export(application, steps, folder, output_names, purge_export_dir)


def _as_values(inputs: Nest) -> list[Tensor]:
    """Converts the inputs of a pipeline, a list or one alone, to tensors.

    Raises:
        TypeError: They are a dict, or one is not of numbers.
    """
    if isinstance(inputs, dict):
        raise TypeError(
            "`inputs` must be a list or a single tensor, got dict: the first stage takes "
            "them by position, so give list(inputs.values())."
        )
    if inputs is None:
        return []
    several = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    return [as_numbers(f"inputs[{index}]", each) for index, each in enumerate(several)]


def _check_iterations(count: int, schedule: Schedule) -> None:
    """Checks the mini-batches of a run; the pipeline itself does it when it runs.

    Raises:
        tf.errors.FailedPreconditionError: The schedule does not take the number.
    """
    why = refusal(schedule, count, bool(system.configured().io_tiles.num_io_tiles))
    if why:
        raise tf.errors.FailedPreconditionError(
            None, None, f"Pipeline depth is invalid. {why} Here it is `iterations`."
        )


def _flat(results: Nest, what: str) -> list[Tensor]:
    """Converts what a step returns to a flat list of tensors."""
    return [as_tensor(f"{what}()", each) for each in tf.nest.flatten(results)]


def _checked_folder(export_dir: str, *, purge: bool) -> Path:
    """Checks and returns the folder, whose content `_export` deletes if `purge`.

    Raises:
        TypeError: It is not a path.
        ValueError: The folder is not empty, or is not a folder.
        RuntimeError: Called outside of eager mode.
    """
    if not tf.executing_eagerly():
        raise RuntimeError(
            "A model is exported in eager mode: call it outside of graphs."
        )
    if not isinstance(export_dir, (str, os.PathLike)):
        raise TypeError(
            f"`export_dir` must be a path, got {type(export_dir).__name__} {export_dir!r}."
        )
    folder = Path(export_dir).expanduser().absolute()
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ValueError(
            f'`export_dir` must be a directory, but "{export_dir}" is not.'
        )
    if not purge and folder.is_dir() and any(folder.iterdir()):
        raise ValueError(
            f'Directory "{export_dir}" is not empty. Please specify an empty '
            "directory, or give purge_export_dir=True to delete what is in it."
        )
    return folder


def _infeed_of(specs: list[tf.TensorSpec]) -> IPUInfeedQueue:
    """Makes an infeed whose elements have these specs, for tracing only."""
    element = tuple(tf.zeros(spec.shape, spec.dtype) for spec in specs)
    return IPUInfeedQueue(tf.data.Dataset.from_tensors(element).repeat())


class _ServedModel(tf.Module):  # type: ignore[misc]
    def __init__(self, application: Path) -> None:
        super().__init__()
        self.application = tf.saved_model.Asset(str(application))
        self.predict: FuncGraph = None


def _export(
    application: Callable[[], Nest],
    steps: Steps,
    folder: Path,
    output_names: str | list[str] | None,
    purge: bool,
) -> NestFunction:
    """Compiles the application, writes the SavedModel, and returns `predict`.

    The content of the folder is deleted, if it may be, when nothing is wrong any more.
    """
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{steps.name}{compiling.SUFFIX}"
        compiling.experimental_application_compile_op(
            application, output_path=path, freeze_variables=True
        )
        signature = file.read(path).signature
        if not signature.streamed_outputs:
            raise ValueError(
                "The last of `computational_stages` must return a tensor, or several: the "
                "results of the model. It returns none."
            )
        model = _ServedModel(path)
        names: list[str] = []
        engine = tf.constant(f"serving_{steps.name}_{uuid.uuid4().hex}")

        def predict(*inputs: Tensor) -> dict[str, Tensor]:
            values = steps.before(*inputs)
            results = saved_calls.build(
                saved_calls.START_AND_CALL,
                [
                    tf.identity(model.application.asset_path),
                    engine,
                    tf.constant(DEFAULT_TIMEOUT_US, tf.int64),
                    tf.constant(0, tf.int64),
                    *values,
                ],
                [feed.spec for feed in signature.streamed_outputs],
            )
            check_called(
                "postprocessing_step", steps.after, len(results), "the step before it"
            )
            results = _flat(steps.after(*results), "postprocessing_step")
            names[:] = output_names_of(output_names, len(results))
            return dict(zip(names, results, strict=True))

        model.predict = tf.function(predict, input_signature=steps.taken)
        concrete = model.predict.get_concrete_function()
        if purge and folder.exists():
            shutil.rmtree(folder)
        tf.saved_model.save(
            model, str(folder), signatures={"serving_default": concrete}
        )
    loaded = tf.saved_model.load(str(folder))
    restored: NestFunction = loaded.predict
    return restored
