"""The interface to a Keras: one kit for Keras 3, one for tf_keras."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ipufeed.keras.checks.batches import BatchCheck
from ipufeed.keras.data.partial_batch import PartialBatch
from ipufeed.keras.pipeline.calls import Graph, Logs
from ipufeed.tf_types import (
    Dataset,
    KerasModel,
    Nest,
    NestFunction,
    Optimizer,
    Tensor,
    Variable,
)


@dataclass(frozen=True)
class Source:
    """The data of a call, which a kit makes of the caller's.

    Attributes:
        dataset: A tf.data.Dataset of batches.
        size: The number of batches; None if it is unknown or infinite.
        endless: Whether it is infinite.
        partial_batch: The last batch if it is smaller than the others; with a `size`.
        renewed: Whether each epoch has a new iterator.
        holds_epochs: Whether one iterator yields the batches of all epochs, `size` of each.
        call_begins: Called when a call begins, with "fit", "evaluate" or "predict".
        epoch_done: Called when an epoch has taken all batches.
        epoch_begins: Called before each iterator is made.
        epoch_ends: Called when an iterator is closed.
        check: Checks the batches of a generator, or a similar object.
    """

    dataset: Dataset
    size: int | None
    partial_batch: PartialBatch | None
    renewed: bool
    holds_epochs: bool = False
    endless: bool = False
    call_begins: Callable[[str], None] = lambda _: None
    epoch_done: Callable[[], None] = lambda: None
    epoch_begins: Callable[[], None] = lambda: None
    epoch_ends: Callable[[], None] = lambda: None
    check: BatchCheck | None = None


class CallbackList(Protocol):
    """The callbacks of a call, as both Keras have them."""

    on_train_begin: Callable[[], None]
    on_train_end: Callable[[Logs | None], None]
    on_epoch_begin: Callable[[int], None]
    on_epoch_end: Callable[[int, Logs], None]
    on_train_batch_begin: Callable[[int], None]
    on_train_batch_end: Callable[[int, Nest], None]
    on_test_begin: Callable[[], None]
    on_test_end: Callable[[Logs], None]
    on_test_batch_begin: Callable[[int], None]
    on_test_batch_end: Callable[[int, Nest], None]
    on_predict_begin: Callable[[], None]
    on_predict_end: Callable[[], None]
    on_predict_batch_begin: Callable[[int], None]
    on_predict_batch_end: Callable[[int, Nest], None]


class Kit(Protocol):
    """The internals of one Keras; see keras3.py and legacy_keras.py.

    `mode` is "fit", "evaluate" or "predict".
    """

    name: str
    trainer: type  # the class of Keras with the steps
    ignored: frozenset[str]  # arguments of its calls that concern generators only
    fewest_epochs: int  # the least value of fit's `epochs`
    takes_version_1: bool  # whether `compile` takes optimizers of TensorFlow 1
    converts: bool  # whether autograph converts `call`, losses and metrics

    def source(self, model: KerasModel, arguments: dict[str, Any]) -> Source:
        """Makes the data of a call of its x, y, sample_weight, batch_size, ..."""

    def split(self, arrays: Nest, fraction: float) -> Nest:
        """Splits arrays for validation_split: training data, validation data."""

    def unpack(self, data: Nest) -> Nest:
        """Returns x, y and sample_weight of an element, or of validation data."""

    def check(self, model: KerasModel, mode: str) -> None:
        """Raises if the model is not compiled, or not supported."""

    def steps_per_execution(self, model: KerasModel) -> int:
        """Returns the argument of `compile`."""

    def set_steps_per_execution(self, model: KerasModel, steps: int) -> None:
        """Replaces the argument of `compile`."""

    def build(self, model: KerasModel, zeros: Nest, mode: str) -> None:
        """Creates all variables: of layers, loss, metrics and optimizer."""

    def prepare_batch(self, model: KerasModel) -> None:
        """Prepares Keras's own function of one batch for compilation."""

    def adopt(self, model: KerasModel) -> None:
        """Moves the variables of the model's optimizers to its strategy.

        Those of `compile`, and those that are attributes of a subclass.
        """

    def callbacks(
        self,
        model: KerasModel,
        callbacks: object,
        verbose: str | int,
        epochs: int,
        steps: int,
    ) -> CallbackList:
        """Makes the callback list of a call; returns a given list as it is."""

    def numbers(self, logs: Nest) -> Logs:
        """Converts logs to Python numbers."""

    def in_order(self, model: KerasModel, logs: Logs) -> Nest:
        """Returns the result of evaluate."""

    def initial_epoch(self, model: KerasModel, initial_epoch: int) -> int:
        """Returns the first epoch, which a callback may have restored."""

    def finish(self, model: KerasModel) -> None:
        """Updates the weights at the end of fit, such as with their averages."""

    def training(self, model: KerasModel, mode: str) -> AbstractContextManager[object]:
        """Returns a context for the programs of a mode: which variables it trains."""

    def ran(self, model: KerasModel, mode: str, first: int, steps: int) -> None:
        """Counts an execution of `steps` steps, from step `first` of the epoch."""

    def step(self, model: KerasModel, mode: str) -> NestFunction:
        """Returns train_step, test_step or predict_step."""

    def forward(self, model: KerasModel, weights: list[Variable]) -> NestFunction:
        """Returns train_step without its update: a function to logs and gradients."""

    def variables(self, variables: list[Variable]) -> list[Variable]:
        """Converts Keras's variables to tf.Variables."""

    def metric_variables(self, model: KerasModel) -> list[Variable]:
        """Returns the variables of the metrics, as tf.Variables."""

    # ---- Pipelines

    def kind(self, model: KerasModel) -> str:
        """Returns the kind of model: a key of assignment.CLASSES."""

    def is_taken_apart(self, model: KerasModel) -> bool:
        """Whether the layer calls of a model are known without calling it."""

    def may_be_pipelined(self, model: KerasModel, given: object) -> bool:
        """Whether a stage was set, or a PipelineStage entered in this process."""

    def x(self, example: Nest) -> Nest:
        """Returns the inputs of an element."""

    def example(self, model: KerasModel) -> Nest:
        """Returns symbolic inputs of a built subclass; None if shapes are unknown."""

    def graph(self, model: KerasModel, x: Nest) -> Graph:
        """Takes the model apart into layer calls; x is for a subclass."""

    def inputs(self, model: KerasModel, element: Nest) -> list[Tensor]:
        """Returns the flat inputs of a model, in the order of its graph."""

    def finish_step(
        self, model: KerasModel, data: Nest, y_pred: Nest, losses: Tensor, mode: str
    ) -> tuple[Tensor, Logs]:
        """Returns a step's scaled loss and logs, from outputs and layers' losses."""

    def optimizer(self, model: KerasModel) -> Optimizer:
        """Returns the optimizer that applies the gradients of the scaled loss."""

    def check_step_not_overridden(self, model: KerasModel, function: str) -> None:
        """Raises RuntimeError if the model overrides a step: a pipeline has layers."""

    def warn_of_averages(self, model: KerasModel, graph: Graph) -> None:
        """Warns of moving averages: they see mini-batches in the schedule's order."""
