"""Programs of several IPUs: their collectives, optimizers and pipelines.

    collectives   tensors between replicas, in one process and in several
    optimizers    mean over replicas, gradient accumulation, shards, offloaded state
    pipeline      stages on IPUs of their own, schedules
    timelines     when the stages of an executed pipeline ran: utilisation, picture

Each uses those above it. Uses ipufeed.device, ipufeed.executable and ipufeed.queues.
"""

from __future__ import annotations

from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name == "timeline":
        from ipufeed.parallel.timelines import timeline

        return timeline
    raise AttributeError(f"module 'ipufeed.parallel' has no attribute {name!r}")
