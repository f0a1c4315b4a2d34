"""What the steps of an exported model take: from a signature, a dataset or the step."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Steps:
    """The steps of an exported model.

    Attributes:
        name: Of the model's step.
        step: On the IPU.
        specs: What it takes.
        taken: What the model takes: of the first step.
        before: On the CPU, from what the model takes to what the step takes, flat.
        after: On the CPU, from the step's results.
    """

    name: str
    step: Callable[..., Any]
    specs: list[tf.TensorSpec]
    taken: list[tf.TensorSpec]
    before: Callable[..., list[Any]]
    after: Callable[..., Any]

    @classmethod
    def of(
        cls,
        step: Callable[..., Any],
        what: str,
        signature: Any,
        dataset: Any,
        preprocessing: tuple[Any, Any],
        postprocessing: tuple[Any, Any],
        named_by: Callable[..., Any] | None = None,
        skip: int = 0,
    ) -> Steps:
        """Checks the steps and finds their signatures.

        Args:
            step: On the IPU.
            what: The argument's name, for errors.
            signature: `predict_step_signature`.
            dataset: `input_dataset`.
            preprocessing: The step before and its signature; None for none.
            postprocessing: The step after and its signature.
            named_by: Whose parameters name the inputs. Default: `step`.
            skip: How many of them, from the first, are given otherwise.
        """
        before, before_signature = preprocessing
        after, after_signature = postprocessing
        if not callable(step):
            raise TypeError(f"`{what}` must be a function, got {type(step).__name__}.")
        named = named_by or step
        refuse_both("predict_step_signature", signature, "input_dataset", dataset)
        if before is None:
            if before_signature is not None:
                raise ValueError(
                    "`preprocessing_step_signature` is given without a "
                    "`preprocessing_step`."
                )
            specs = signature_of(named, what, signature, dataset, skip)
            steps = cls(name_of(named), step, specs, specs, given, after or results)
        else:
            first, own = before_signature, signature
            refuse_both("preprocessing_step_signature", first, "input_dataset", dataset)
            if first is None and dataset is None and has_signature(named):
                # The signature is of the first step, and the second has its own.
                first, own = signature, None
            taken = signature_of(before, "preprocessing_step", first, dataset)
            specs = signature_of(named, what, own, None, skip)
            check_results(before, taken, specs, "preprocessing_step", what)
            steps = cls(
                name_of(named), step, specs, taken, flattened(before), after or results
            )
        if after is not None and (after_signature is not None or has_signature(after)):
            wanted = signature_of(after, "postprocessing_step", after_signature, None)
            check_results(step, specs, wanted, what, "postprocessing_step")
        return steps


def given(*inputs: Any) -> list[Any]:
    """The inputs as they are."""
    return list(inputs)


def results(*values: Any) -> Any:
    """The results as they are."""
    return list(values)


def flattened(step: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A step that gives a list of tensors."""
    return lambda *inputs: [
        tf.convert_to_tensor(each) for each in tf.nest.flatten(step(*inputs))
    ]


def name_of(step: Callable[..., Any]) -> str:
    """A name for files and engines: of the step, as far as it is one."""
    name = str(getattr(inspect.unwrap(step), "__name__", ""))
    return name if name.isidentifier() else "predict_step"


def refuse_both(one: str, first: Any, other: str, second: Any) -> None:
    """Raises ValueError if both are given."""
    if first is not None and second is not None:
        raise ValueError(
            f"Both `{one}` and `{other}` cannot be provided. Please pass only one of "
            "them."
        )


def has_signature(step: Any) -> bool:
    """Whether it is a tf.function with an input_signature."""
    return getattr(step, "input_signature", None) is not None


def signature_of(
    step: Any, what: str, signature: Any, dataset: Any, skip: int = 0
) -> list[tf.TensorSpec]:
    """What a step takes, with the names of its parameters.

    Raises:
        TypeError: The signature is not a list of tf.TensorSpec, or the dataset is none.
        ValueError: There is none, or a shape is not fully defined.
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
    elif has_signature(step):
        specs = list(step.input_signature)
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
    names = parameter_names(step, skip)
    return [
        tf.TensorSpec(
            spec.shape,
            spec.dtype,
            names[i] if i < len(names) else spec.name or f"input_{i}",
        )
        for i, spec in enumerate(specs)
    ]


def parameter_names(step: Any, skip: int) -> list[str]:
    """The names of a step's parameters, without the first `skip`."""
    function = getattr(step, "python_function", step)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return [each.name for each in parameters if each.kind in kinds][skip:]


def check_results(
    step: Any,
    takes: list[tf.TensorSpec],
    wanted: list[tf.TensorSpec],
    what: str,
    to: str,
) -> None:
    """Compares what a step gives with what the next one takes.

    Raises:
        ValueError: They differ; it names the step and the position.
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


def output_names_of(names: Any, count: int) -> list[str]:
    """The names of a model's results.

    Raises:
        TypeError: They are neither a str nor a list.
        ValueError: There are more or fewer than results.
    """
    if names is None:
        return [f"output_{i}" for i in range(count)]
    if not isinstance(names, (str, list)):
        raise TypeError(
            "output_names must be either a string or a list, received "
            f"{type(names).__name__}."
        )
    listed = [names] if isinstance(names, str) else names
    if len(listed) != count:
        raise ValueError(
            "Length of output_names does not match the number of results returned by the "
            f"predict function. There are {count} results, and {len(listed)} names."
        )
    return [str(name) for name in listed]
