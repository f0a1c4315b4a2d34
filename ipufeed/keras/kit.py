"""What the calls want to know of a Keras: a kit answers for one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ipufeed.keras.feed import Source


class Kit(Protocol):
    """The internals of one Keras; see keras3.py and legacy_keras.py."""

    name: str
    ignored: frozenset[str]  # arguments of its calls that concern other data than ours

    def source(self, model: Any, arguments: dict[str, Any]) -> Source:
        """The data of a call, from its x, y, sample_weight, batch_size and the like."""

    def split(self, arrays: Any, fraction: float) -> Any:
        """Arrays cut for validation_split: training data, validation data."""

    def unpack(self, data: Any) -> Any:
        """The x, y and sample_weight of an element, or of validation data."""

    def check(self, model: Any, mode: str) -> None:
        """Raises if the model was not compiled, or runs what a program cannot."""

    def steps_per_execution(self, model: Any) -> int:
        """What `compile` was given."""

    def build(self, model: Any, zeros: Any, mode: str) -> None:
        """Makes all variables: of layers, loss, metrics and optimizer."""

    def adopt(self, model: Any) -> None:
        """Gives an optimizer that was made elsewhere to the model's strategy."""

    def callbacks(
        self, model: Any, callbacks: Any, verbose: Any, epochs: int, steps: int
    ) -> Any:
        """The callback list of a call; one that is given is given back."""

    def numbers(self, logs: Any) -> dict[str, Any]:
        """Logs as Python numbers."""

    def in_order(self, model: Any, logs: dict[str, Any]) -> Any:
        """What evaluate returns."""

    def initial_epoch(self, model: Any, initial_epoch: int) -> int:
        """Where training begins, which a callback may have restored."""

    def finish(self, model: Any) -> None:
        """What fit does with the weights at its end."""

    def training(self, model: Any, mode: str) -> Any:
        """A context for the programs of a mode, of what is trained in it."""

    def ran(self, model: Any, mode: str, first: int, steps: int) -> None:
        """An execution of `steps` steps, from step `first` of the epoch, has ended."""

    def step(self, model: Any, mode: str) -> Callable[[Any], Any]:
        """train_step, test_step or predict_step."""

    def forward(self, model: Any, weights: list[Any]) -> Callable[[Any], Any]:
        """train_step without its update: gives the logs and the gradients."""

    def metric_variables(self, model: Any) -> list[Any]:
        """The variables of the metrics, as tf.Variables."""
