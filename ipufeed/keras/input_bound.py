"""A callback that reports whether training waits for its data."""

from __future__ import annotations

from typing import Any

from ipufeed.device.log import LOGGER
from ipufeed.keras.layers.in_use import keras
from ipufeed.keras.state import existing_state

# Below it a faster pipeline changes little, from the other on nearly everything.
SOME, MOST = 0.05, 0.5


class InputBound(keras.callbacks.Callback):  # type: ignore[misc]
    """Logs after each epoch of `fit` how long the device was starved of data.

        model.fit(dataset, epochs=3, callbacks=[ipufeed.keras.InputBound()])

    The share is the time in which the program waited at its empty infeed, over the time in
    which it ran; with several replicas the mean of theirs. It is that of `python -m
    ipufeed.benchmark --through device`, for the steps of the model. It is added to the
    logs, and so to the History, as `starved`. The first epoch's time has that of the
    compilation in it. A model of stock Keras has no infeed: then
    nothing is added, and one warning is logged.

    Attributes:
        starved: The share of each epoch, in [0, 1].
    """

    def __init__(self) -> None:
        super().__init__()
        self.starved: list[float] = []
        self._warned = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Forgets the fit before."""
        self.starved = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Reads the infeed's counters, and logs what they come to."""
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
        share = min(1.0, waited_s / state.replicas() / ran_s) if ran_s > 0 else 0.0
        self.starved.append(share)
        if logs is not None:
            logs["starved"] = share
        verdict = (
            "its pipeline is the bottleneck"
            if share >= MOST
            else "a faster pipeline would help"
            if share >= SOME
            else "its pipeline is fast enough"
        )
        LOGGER.info(
            "Epoch %d of `%s`: the device waited for data during %.0f %% of %.2f s: %s.",
            *(epoch + 1, self.model.name, 100 * share, ran_s, verdict),
        )
