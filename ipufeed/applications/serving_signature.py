"""Determines the inputs of an exported model's steps: from signatures or a dataset."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from ipufeed.checks import own_signature
from ipufeed.tf_types import Dataset, NestFunction, Tensor

SignatureArgument = list[tf.TensorSpec] | tuple[tf.TensorSpec, ...] | None


@dataclass(frozen=True)
class Steps:
    """The steps of an exported model.

    Attributes:
        name: Name of the step on the IPU.
        step: The step on the IPU.
        specs: Inputs of that step.
        taken: Inputs of the model, which are those of the first step.
        before: The preprocessing on the CPU, which returns a flat list.
        after: The postprocessing on the CPU.
    """

    name: str
    step: NestFunction
    specs: list[tf.TensorSpec]
    taken: list[tf.TensorSpec]
    before: Callable[..., list[Tensor]]
    after: NestFunction

    @classmethod
    def of(
        cls,
        step: NestFunction,
        what: str,
        signature: SignatureArgument,
        dataset: Dataset | None,
        preprocessing: tuple[NestFunction | None, SignatureArgument],
        postprocessing: tuple[NestFunction | None, SignatureArgument],
        named_by: NestFunction | None = None,
        skip: int = 0,
    ) -> Steps:
        """Checks the steps and finds their signatures.

        Args:
            step: The step on the IPU.
            what: Name of the argument, for errors.
            signature: `predict_step_signature`.
            dataset: `input_dataset`.
            preprocessing: The preprocessing step and its signature, or None.
            postprocessing: The postprocessing step and its signature, or None.
            named_by: The function whose parameters name the inputs. Default: `step`.
            skip: Number of its first parameters that are not inputs.
        """
        before, before_signature = preprocessing
        after, after_signature = postprocessing
        if not callable(step):
            raise TypeError(f"`{what}` must be a function, got {type(step).__name__}.")
        named = named_by or step
        if after is not None and not callable(after):
            raise TypeError(
                f"`postprocessing_step` must be a function, got {type(after).__name__}."
            )
        _refuse_both("predict_step_signature", signature, "input_dataset", dataset)
        if before is None:
            if before_signature is not None:
                raise ValueError(
                    "`preprocessing_step_signature` is given without a "
                    "`preprocessing_step`."
                )
            specs = _signature_of(named, what, signature, dataset, skip)
            steps = cls(
                _name_of(named), step, specs, specs, _as_list, after or _as_list
            )
        else:
            first, own = before_signature, signature
            _refuse_both(
                "preprocessing_step_signature", first, "input_dataset", dataset
            )
            if first is None and dataset is None and _has_signature(named):
                # The signature is that of the first step; the second has its own.
                first, own = signature, None
            taken = _signature_of(before, "preprocessing_step", first, dataset)
            specs = _signature_of(named, what, own, None, skip)
            _check_results(before, taken, specs, "preprocessing_step", what)
            steps = cls(
                _name_of(named),
                step,
                specs,
                taken,
                _returns_flat_list(before),
                after or _as_list,
            )
        if after is not None and (after_signature is not None or _has_signature(after)):
            wanted = _signature_of(after, "postprocessing_step", after_signature, None)
            _check_results(step, specs, wanted, what, "postprocessing_step")
        return steps


def _as_list(*values: Tensor) -> list[Tensor]:
    return list(values)


def _returns_flat_list(step: NestFunction) -> Callable[..., list[Tensor]]:
    """Wraps a step to return a flat list of tensors."""
    return lambda *inputs: [
        tf.convert_to_tensor(each) for each in tf.nest.flatten(step(*inputs))
    ]


def _name_of(step: NestFunction) -> str:
    """Returns a name for files and engines: the step's, if it is an identifier."""
    name = str(getattr(inspect.unwrap(step), "__name__", ""))
    return name if name.isidentifier() else "predict_step"


def _refuse_both(one: str, first: object, other: str, second: object) -> None:
    """Raises ValueError if both arguments are given."""
    if first is not None and second is not None:
        raise ValueError(
            f"Both `{one}` and `{other}` cannot be provided. Please pass only one of "
            "them."
        )


def _has_signature(step: NestFunction) -> bool:
    return getattr(step, "input_signature", None) is not None


def _signature_of(
    step: NestFunction,
    what: str,
    signature: SignatureArgument,
    dataset: Dataset | None,
    skip: int = 0,
) -> list[tf.TensorSpec]:
    """Returns the inputs of a step, named as in the signature, or by its parameters.

    Raises:
        TypeError: The signature is not a list of tf.TensorSpec, or `dataset` not a dataset;
            or the step takes another number of inputs.
        ValueError: The signature is missing, or a shape is not fully defined.
    """
    if not callable(step):
        raise TypeError(f"`{what}` must be a function, got {type(step).__name__}.")
    if dataset is not None:
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(
                f"`input_dataset` must be a tf.data.Dataset, got {type(dataset).__name__}."
            )
        specs = tf.nest.flatten(dataset.element_spec)
    elif signature is not None:
        if not isinstance(signature, (list, tuple)) or not signature:
            raise TypeError(
                f"The signature of `{what}` must be a list or tuple of at least one "
                f"tf.TensorSpec, got {signature!r}."
            )
        specs = list(signature)
    elif (own := getattr(step, "input_signature", None)) is not None:
        specs = list(own)
    else:
        raise ValueError(
            f"The signature of `{what}` is missing: give it as an argument, as "
            "`input_dataset`, or as the input_signature of a tf.function."
        )
    for spec in specs:
        if not isinstance(spec, tf.TensorSpec):
            raise TypeError(
                f"The signature of `{what}` must have tf.TensorSpecs, got {spec!r}."
            )
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"The shapes that `{what}` takes must be fully defined, got {spec}."
            )
    check_called(what, step, skip + len(specs), "its signature")
    names = _parameter_names(step, skip)
    return [
        tf.TensorSpec(
            spec.shape,
            spec.dtype,
            spec.name or (names[i] if i < len(names) else f"input_{i}"),
        )
        for i, spec in enumerate(specs)
    ]


def check_called(what: str, step: NestFunction, count: int, origin: str) -> None:
    """Raises TypeError unless a step can be called with `count` tensors.

    Args:
        what: Name of the argument, for the error.
        step: The step.
        count: The number of tensors.
        origin: What gives them, for the error.
    """
    signature = own_signature(getattr(step, "python_function", step))
    if signature is None:
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        name = getattr(step, "__name__", type(step).__name__)
        raise TypeError(
            f"`{what}` cannot be called with the {count} tensor{'s' if count != 1 else ''} "
            f"of {origin}: {error}. It is `{name}{signature}`."
        ) from None


def _parameter_names(step: NestFunction, skip: int) -> list[str]:
    """Returns the names of a step's parameters, without the first `skip`."""
    function = getattr(step, "python_function", step)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in kinds][skip:]


def _check_results(
    step: NestFunction,
    takes: list[tf.TensorSpec],
    wanted: list[tf.TensorSpec],
    what: str,
    to: str,
) -> None:
    """Checks the results of a step against the inputs of the next one.

    Raises:
        ValueError: They differ; the message has the step and the position.
    """
    traced = tf.function(step, autograph=False).get_concrete_function(*takes)
    found = tf.nest.flatten(traced.structured_outputs)
    if len(found) != len(wanted):
        raise ValueError(
            f"`{what}` gives {len(found)} tensors, and `{to}` takes {len(wanted)}."
        )
    for position, (one, other) in enumerate(zip(found, wanted, strict=True)):
        fits = one.dtype == other.dtype and one.shape.is_compatible_with(other.shape)
        if not fits:
            raise ValueError(
                f"`{what}` gives {one.dtype.name} {one.shape} at position {position}, and "
                f"`{to}` takes {other.dtype.name} {other.shape} there."
            )


def check_output_names(names: object) -> None:
    """Raises TypeError unless names of results are a str, a list or None."""
    if names is not None and not isinstance(names, (str, list)):
        raise TypeError(
            "output_names must be either a string or a list, received "
            f"{type(names).__name__}."
        )


def output_names_of(names: str | list[str] | None, count: int) -> list[str]:
    """Returns the names of a model's results.

    Raises:
        ValueError: Their number differs from that of the results.
    """
    if names is None:
        return [f"output_{i}" for i in range(count)]
    listed = [names] if isinstance(names, str) else names
    if len(listed) != count:
        raise ValueError(
            "Length of output_names does not match the number of results returned by the "
            f"predict function. There are {count} results, and {len(listed)} names."
        )
    return [str(name) for name in listed]
