"""Checks of the optimizers' arguments."""

from __future__ import annotations

from typing import Any


def check_sharded_state(state_sharding: Any, offload_state: bool) -> None:
    """Raises ValueError if the optimizer's state is sharded and not offloaded."""
    if state_sharding and not offload_state:
        raise ValueError(
            "To use replicated_optimizer_state_sharding, optimizer state must be "
            "offloaded by using offload_weight_update_variables."
        )
