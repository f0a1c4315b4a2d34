"""Sequential, Model, PipelineSequential and PipelineModel of SDK 2.0 and 2.1.

Each wraps a model of the Keras in use, sets its options, and counts steps as those classes
did: see counts. Other attributes are those of the wrapped model.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import tensorflow as tf

from ipufeed.keras.layers.in_use import keras
from ipufeed.keras.older.counts import count, size_of
from ipufeed.keras.state import ModelState, existing_state
from ipufeed.tf_types import DType, KerasLayer, KerasModel, Nest

# Keras's arguments that the classes do not support, by call.
NOT_SUPPORTED = {
    "compile": ("target_tensors", "weighted_metrics", "run_eagerly"),
    "fit": (
        *("validation_data", "validation_split", "validation_steps", "validation_freq"),
        *("validation_batch_size", "class_weight", "sample_weight", "max_queue_size"),
        *("workers", "use_multiprocessing"),
    ),
    "evaluate": ("sample_weight", "max_queue_size", "workers", "use_multiprocessing"),
    "predict": ("max_queue_size", "workers", "use_multiprocessing"),
}
_OLD = {
    "accumulation_count": "gradient_accumulation_count",
    "accumulation_dtype": "gradient_accumulation_dtype",
}


def _renamed(keywords: dict[str, object]) -> dict[str, object]:
    """Replaces older names of arguments."""
    for old, new in _OLD.items():
        if old in keywords:
            warnings.warn(f"`{old}` is now `{new}`.", FutureWarning, stacklevel=4)
            keywords[new] = keywords.pop(old)
    return keywords


def _check(call: str, keywords: dict[str, object]) -> None:
    given = [name for name in NOT_SUPPORTED[call] if keywords.pop(name, None)]
    if given:
        raise NotImplementedError(
            f"IPU Keras models do not support these parameters to {call}(): "
            f"{', '.join(given)}. A model of Keras in the scope of an IPUStrategy does."
        )


class _Older:
    """The common part of the classes.

    Args:
        model: A model of Keras, made in the scope of an IPUStrategy.
        batches: The batches of a weight update.
    """

    pipelined = False

    def __init__(self, model: KerasModel, batches: int) -> None:
        self.keras_model = model
        self._batches = batches
        self._prefetch_depth: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "keras_model":
            raise AttributeError(name)
        return getattr(self.keras_model, name)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raises ValueError: it is not supported."""
        raise ValueError(
            f"{type(self).__name__} can only be called through the `fit`, `evaluate` or "
            "`predict` interfaces."
        )

    def save(self, *_: object, **__: object) -> NoReturn:
        """Raises NotImplementedError: it is not supported."""
        raise NotImplementedError(
            "IPU Keras models do not support the `save` interface. `save_weights` does."
        )

    def compile(self, *arguments: object, **keywords: object) -> None:
        """See `compile` of Keras's models."""
        _check("compile", keywords)
        self.keras_model.compile(*arguments, **keywords)

    def fit(
        self,
        x: Nest = None,
        y: Nest = None,
        *,
        batch_size: int | None = None,
        epochs: int = 1,
        steps_per_epoch: int | None = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **keywords: object,
    ) -> object:
        """Trains the model as Keras's `fit` does.

        Args:
            x: Inputs, or a tf.data.Dataset.
            y: Targets.
            batch_size: The batch size of arrays.
            epochs: See Keras.
            steps_per_epoch: Weight updates of an epoch, of all replicas.
            steps_per_run: Weight updates of one run of the program. Default: an epoch.
            prefetch_depth: The depth of the infeed.
            **keywords: Others of Keras's `fit`.

        Returns:
            Its History.
        """
        _check("fit", keywords)
        run = (steps_per_epoch, steps_per_run, self._batches)
        x, steps = self._prepare(x, batch_size, run, prefetch_depth)
        return self.keras_model.fit(
            x,
            y,
            batch_size=batch_size,
            epochs=epochs,
            steps_per_epoch=steps,
            **keywords,
        )

    def evaluate(
        self,
        x: Nest = None,
        y: Nest = None,
        *,
        batch_size: int | None = None,
        steps: int | None = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **keywords: object,
    ) -> Nest:
        """Evaluates; a step is one batch, of a pipeline those of a weight update."""
        _check("evaluate", keywords)
        run = (steps, steps_per_run, self._batches if self.pipelined else 1)
        x, steps = self._prepare(x, batch_size, run, prefetch_depth)
        return self.keras_model.evaluate(
            x, y, batch_size=batch_size, steps=steps, **keywords
        )

    def predict(
        self,
        x: Nest,
        *,
        batch_size: int | None = None,
        steps: int | None = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **keywords: object,
    ) -> Nest:
        """Predicts; for steps see evaluate."""
        _check("predict", keywords)
        run = (steps, steps_per_run, self._batches if self.pipelined else 1)
        x, steps = self._prepare(x, batch_size, run, prefetch_depth)
        return self.keras_model.predict(
            x, batch_size=batch_size, steps=steps, **keywords
        )

    def _prepare(
        self,
        x: Nest,
        batch_size: int | None,
        run: tuple[int | None, int | None, int],
        prefetch_depth: int | None,
    ) -> tuple[Nest, int | None]:
        """Sets the options of the call on the model.

        Returns:
            The data, and Keras's number of steps; None for all data.
        """
        model = self.keras_model
        if prefetch_depth != self._prefetch_depth:
            model.set_infeed_queue_options(
                **({} if prefetch_depth is None else {"prefetch_depth": prefetch_depth})
            )
            self._prefetch_depth = prefetch_depth
        state = existing_state(model)
        assert state is not None  # __init__ has set an option
        steps, per_run, batches = run
        counts = count(
            size_of(x, batch_size), steps, per_run, batches, self._replicas(state)
        )
        state.kit.set_steps_per_execution(model, counts.execution)
        if steps is not None:
            return x, counts.steps
        if counts.dropped and isinstance(x, tf.data.Dataset):
            return x.take(counts.steps * self._replicas(state)), None
        return x, counts.steps if counts.dropped else None

    def _replicas(self, state: ModelState) -> int:
        return int(state.replicas())


def _accumulate(model: KerasModel, count: int, dtype: DType) -> None:
    options = {} if dtype is None else {"dtype": dtype}
    model.set_gradient_accumulation_options(count, **options)


class Sequential(_Older):
    """A Sequential of SDK 2.0 and 2.1.

    Args:
        layers: As of Keras's.
        gradient_accumulation_count: Batches of a weight update.
        gradient_accumulation_dtype: The dtype of the sums of gradients.
        layer_replacement: No effect: the layers are compiled as they are.
        **keywords: Of Keras's class, or older names of these.
    """

    def __init__(
        self,
        layers: list[KerasLayer] | None = None,
        *arguments: object,
        **keywords: object,
    ) -> None:
        count, dtype, others = _accumulation(arguments, keywords)
        super().__init__(keras.Sequential(layers, **others), count)
        _accumulate(self.keras_model, count, dtype)


class Model(_Older):
    """A functional Model of SDK 2.0 and 2.1.

    Args:
        inputs: As of Keras's.
        outputs: As of Keras's.
        gradient_accumulation_count: Batches of a weight update.
        gradient_accumulation_dtype: The dtype of the sums of gradients.
        layer_replacement: No effect: the layers are compiled as they are.
        **keywords: Of Keras's class, or older names of these.
    """

    def __init__(
        self, inputs: Nest, outputs: Nest, *arguments: object, **keywords: object
    ) -> None:
        count, dtype, others = _accumulation(arguments, keywords)
        super().__init__(keras.Model(inputs, outputs, **others), count)
        _accumulate(self.keras_model, count, dtype)


def _accumulation(
    arguments: tuple[object, ...], keywords: dict[str, object]
) -> tuple[Any, object, dict[str, object]]:
    """Returns the two options, by position or name, and Keras's arguments."""
    names = (
        *("gradient_accumulation_count", "gradient_accumulation_dtype"),
        "layer_replacement",
    )
    if len(arguments) > len(names):
        raise TypeError(f"At most {len(names)} options may be given by position.")
    given = {**dict(zip(names, arguments, strict=False)), **_renamed(dict(keywords))}
    given.pop("layer_replacement", None)
    count, dtype = given.pop(names[0], 1), given.pop(names[1], None)
    return count, dtype, given


class _Pipelined(_Older):
    pipelined = True

    def __init__(self, model: KerasModel, keywords: dict[str, Any]) -> None:
        options: dict[str, Any] = _renamed(dict(keywords))
        batches = options.pop("gradient_accumulation_count", None)
        if batches is None:
            raise ValueError(
                f"{type(self).__name__} needs `gradient_accumulation_count`: the batches "
                "of a weight update, at least as many as the pipeline's schedule wants."
            )
        super().__init__(model, batches)
        options.pop("layer_replacement", None)
        if options.get("batch_serialization_iterations") in (None, 1):
            options.pop("batch_serialization_iterations", None)
        model.set_pipelining_options(
            batches, **{name: options[name] for name in options if name != "name"}
        )

    def _replicas(self, state: ModelState) -> int:
        self.keras_model.get_pipeline_stage_assignment()
        stages = [each.stage for each in state.pipeline.graph.flat()]
        return int(
            state.replicas(max((k for k in stages if k is not None), default=0) + 1)
        )


class PipelineSequential(_Pipelined):
    """A pipeline of layers, of SDK 2.0 and 2.1.

    Args:
        stages: A list of stages; each is a list of layers.
        gradient_accumulation_count: Batches of a weight update.
        **keywords: Options of pipelining_ops.pipeline, or older names of these.

    Raises:
        ValueError: `stages` is not such a list.
    """

    def __init__(
        self,
        stages: list[list[KerasLayer]],
        gradient_accumulation_count: int | None = None,
        **keywords: object,
    ) -> None:
        kinds = (list, tuple)
        if (
            not isinstance(stages, kinds)
            or not stages
            or not all(isinstance(each, kinds) for each in stages)
        ):
            raise ValueError(
                "An IPU pipeline must take a non-empty list of stages, where each stage is "
                "a list of Keras Layers."
            )
        model = keras.Sequential(
            [layer for stage in stages for layer in stage], name=keywords.get("name")
        )
        stage_of = {id(one): k for k, stage in enumerate(stages) for one in stage}
        if gradient_accumulation_count is not None:
            keywords["gradient_accumulation_count"] = gradient_accumulation_count
        super().__init__(model, keywords)
        model.set_pipeline_stage_assignment([stage_of[id(one)] for one in model.layers])


class SequentialPipelineModel(PipelineSequential):
    """The older name of PipelineSequential."""


class PipelineModel(_Pipelined):
    """A functional model whose layers are called in PipelineStage, of SDK 2.0 and 2.1.

    Args:
        inputs: As of Keras's Model.
        outputs: As of Keras's Model.
        gradient_accumulation_count: Batches of a weight update.
        **keywords: Options of pipelining_ops.pipeline, or older names of these.
    """

    def __init__(self, inputs: Nest, outputs: Nest, **keywords: object) -> None:
        super().__init__(
            keras.Model(inputs, outputs, name=keywords.get("name")), keywords
        )
