"""Calls a program's input_fn and model_fn with the arguments that they name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipufeed.checks import as_int, check_function
from ipufeed.estimators.checks import EVAL, PREDICT, TRAIN
from ipufeed.estimators.ipu_run_config import RunConfig
from ipufeed.estimators.session_ops import check_ops_of_session
from ipufeed.tf_types import Dataset, Nest

BATCH_SIZE = "batch_size"


def named_arguments(function: Callable[..., Any]) -> set[str]:
    """Returns the names of a function's parameters, without *args and **kwargs."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.kind not in several}


def check_model_function(function: Callable[..., Any], known: Sequence[str]) -> None:
    """Checks the parameters of a model function.

    Raises:
        TypeError: It is not a function.
        ValueError: It needs an argument that it does not get.
    """
    check_function("model_fn", function)
    first, *_ = known
    for parameter in inspect.signature(function).parameters.values():
        needs = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if needs and parameter.name not in known:
            raise ValueError(
                f"model_fn ({function}) has following not expected args: "
                f"['{parameter.name}']; it can have {', '.join(known)}."
            )
    if first == "features" and "features" not in named_arguments(function):
        raise ValueError(f"model_fn ({function}) must include features argument.")


def params_of(
    params: Mapping[str, Any] | None,
    sizes: Mapping[str, int | None],
    mode: str,
    replicas: int,
) -> dict[str, Any]:
    """Returns the parameters for a mode: with the batch size of one replica, if given.

    Args:
        params: The estimator's.
        sizes: Mode -> the number of samples of a step of all replicas, or None.
        mode: The mode.
        replicas: The number of replicas.
    """
    found = dict(params or {})
    size = sizes[mode]
    if size is not None:
        found[BATCH_SIZE] = size // replicas
    return found


def check_batch_sizes(
    sizes: Mapping[str, int | None],
    params: Mapping[str, Any] | None,
    replicas: int,
) -> None:
    """Checks the batch sizes of an estimator.

    Raises:
        TypeError: A size is not an int.
        ValueError: A size is not a positive multiple of the replicas, or `params` has one.
    """
    names = {TRAIN: "train", EVAL: "eval", PREDICT: "predict"}
    for mode, size in sizes.items():
        if size is None:
            continue
        name = f"{names[mode]}_batch_size"
        if as_int(name, size, " or None") <= 0 or size % replicas:
            raise ValueError(
                f"`{name}` ({size}) must be a positive multiple of the number of replicas "
                f"({replicas})."
            )
        if BATCH_SIZE in (params or {}):
            raise ValueError(
                f"`params` must not have {BATCH_SIZE!r} together with `{name}`, which "
                "gives it."
            )


def dataset_of(
    input_fn: Callable[..., Any], mode: str, params: dict[str, Any], config: RunConfig
) -> Dataset:
    """Calls an input function, in the current graph, on the host.

    Raises:
        TypeError: It is not a function.
        ValueError: It does not return a dataset of this graph.
    """
    check_function("input_fn", input_fn)
    given = {"mode": mode, "params": params, "config": config}
    named = named_arguments(input_fn)
    with tf.device("/device:CPU:0"):
        dataset = input_fn(**{name: given[name] for name in given if name in named})
    if not isinstance(dataset, tf.data.Dataset):
        raise ValueError(
            f"input_fn must return Dataset, got {type(dataset).__name__}. An IPU is fed "
            "by an infeed queue: return a tf.data.Dataset of features, or of (features, "
            "labels)."
        )
    made_in = getattr(dataset._variant_tensor, "graph", None)
    if made_in is not tf.compat.v1.get_default_graph():
        raise ValueError(
            "input_fn must make the dataset, with all of its transformations, each time "
            "it is called: each mode has a graph of its own, and this dataset was made "
            "outside of it."
        )
    found: Dataset = dataset
    return found


def features_and_labels(
    elements: Sequence[Nest], named: Mapping[str, Nest]
) -> tuple[Nest, Nest]:
    """Splits an element as a loop's body gets it.

    Args:
        elements: The parts of a tuple, or one tensor.
        named: The entries of a dict, which then is the features.

    Raises:
        ValueError: A tuple of more than two.
    """
    if named:
        return dict(named), None
    if len(elements) > 2:
        raise ValueError(
            "The dataset of input_fn must have elements of features, or of (features, "
            f"labels), got a tuple of {len(elements)}."
        )
    features, *labels = elements
    return features, labels[0] if labels else None


class ModelFunction:
    """A program's model function, with its mode, parameters and configuration.

    Args:
        function: The model function.
        mode: The mode it is called for.
        params: Its parameters.
        config: The estimator's configuration.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        mode: str,
        params: dict[str, Any],
        config: RunConfig,
    ) -> None:
        self._function = function
        self.mode = mode
        self.config = config
        self._given = {"mode": mode, "params": params, "config": config}

    def __call__(self, kinds: tuple[type[Any], ...], **inputs: Nest) -> Any:
        """Calls it with those of its arguments that it names, and checks what it returns.

        Args:
            kinds: The classes of its spec.
            **inputs: `features` and `labels`, or none.

        Raises:
            ValueError: There are labels, and it does not take any; the spec is of another
                mode; or what the session runs is a part of the program.
            TypeError: It does not return a spec.
        """
        named = named_arguments(self._function)
        if inputs.get("labels") is not None and "labels" not in named:
            raise ValueError(
                "model_fn does not take labels, but input_fn returns labels."
            )
        given = self._given | inputs
        spec: Any = self._function(
            **{name: given[name] for name in given if name in named}
        )
        if not isinstance(spec, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(
                f"model_fn must return an {names}, got {type(spec).__name__}."
            )
        if spec.mode != self.mode:
            raise ValueError(
                f"model_fn returned a spec of the mode {spec.mode!r} in the mode "
                f"{self.mode!r}."
            )
        check_ops_of_session(getattr(spec, "scaffold", None))
        return spec
