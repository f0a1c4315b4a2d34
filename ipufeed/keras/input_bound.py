"""A callback that reports whether training waits for its data."""

from __future__ import annotations

from ipufeed.device.log import LOGGER
from ipufeed.keras.layers.in_use import keras
from ipufeed.keras.pipeline.calls import Logs
from ipufeed.keras.state import existing_state

# Starved fractions from which a faster pipeline helps, and is what matters most.
SOME, MOST = 0.05, 0.5


class InputBound(keras.callbacks.Callback):  # type: ignore[misc]
    """Logs after each epoch of `fit` the fraction of time that the device was starved.

        model.fit(dataset, epochs=3, callbacks=[ipufeed.keras.InputBound()])

    The fraction is the time in which the program waited at its empty infeed, over its run
    time; with several replicas their mean. It is that of `python -m ipufeed.benchmark
    --through device`, for the steps of the model. It is added to the logs, and so to the
    History, as `starved`. The first epoch's time includes the compilation. A model of stock
    Keras has no infeed: then a warning is logged once, and nothing added.

    Attributes:
        starved: The fraction of each epoch, in [0, 1].
    """

    def __init__(self) -> None:
        super().__init__()
        self.starved: list[float] = []
        self._warned = False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Clears the fractions of an earlier fit."""
        self.starved = []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Computes the fraction from the infeed's counters, and logs it."""
        state = existing_state(self.model)
        if state is None or state.feed is None:
            if not self._warned:
                LOGGER.warning(
                    "InputBound has nothing to report: the model `%s` is not trained on an "
                    "IPU. Make it in the scope of an IPUStrategy.",
                    self.model.name,
                )
            self._warned = True
            return
        waited_s, ran_s = state.feed.waited_s(), state.ran_s
        fraction = min(1.0, waited_s / state.replicas() / ran_s) if ran_s > 0 else 0.0
        self.starved.append(fraction)
        if logs is not None:
            logs["starved"] = fraction
        verdict = (
            "its pipeline is the bottleneck"
            if fraction >= MOST
            else "a faster pipeline would help"
            if fraction >= SOME
            else "its pipeline is fast enough"
        )
        LOGGER.info(
            "Epoch %d of `%s`: the device waited for data during %.0f %% of %.3g s: %s.",
            *(epoch + 1, self.model.name, 100 * fraction, ran_s, verdict),
        )
