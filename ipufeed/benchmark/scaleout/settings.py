"""The settings of a run through tf.data service; without TensorFlow."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# Of --processes, and workers of a local service: all run on this host.
MOST_PROCESSES = 64


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The service, and how to use it; cli/options/scaleout.py checks the values.

    Args:
        service: `local:N`, or `grpc://host:port` of a running service.
        sharding: `off`, `dynamic`, `file`, `data` or `file_or_data`: a policy of
            tf.data.experimental.service.ShardingPolicy.
        compression: `auto`, `snappy` or `none`.
        scale: Further numbers of workers to measure; 0 is without a service.
        kill_worker_after: Kill worker 0 this many seconds after the first element.

    Attributes:
        workers: N of `local:N`; None for other text, or N out of range.
    """

    service: str
    sharding: str = "off"
    compression: str = "auto"
    scale: tuple[int, ...] = ()
    kill_worker_after: float | None = None
    workers: int | None = field(init=False)

    def __post_init__(self) -> None:
        found = re.fullmatch(r"local:(\d{1,4})", self.service)
        count = int(found[1]) if found else 0
        workers = count if 1 <= count <= MOST_PROCESSES else None
        object.__setattr__(self, "workers", workers)
