"""The process-wide state of ipufeed, as one object: `STATE.reset()` restores its start.

    flags  executor  system  programs  provided  blocks  folders  counters  random_ops
    warnings  queue limits  host calls  host embeddings  references  popdist  engines
    queues by id  loader stages  python elements
        --part--> STATE

Each module registers its part when it is imported, so that this one imports none of them.
A reset does not end threads or programs: call it when nothing runs.

What survives a reset, since it is not set by programs or cannot be undone: replaced
attributes of TensorFlow, functions that one module gives another at its import, Graphcore's
names in sys.modules, users' libraries that are loaded (ops/host/user_library), temporary
folders that are removed at exit, and the number of interrupts, which may only grow
(queues/interrupt).
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class ProcessState:
    """The parts of a process's state, each with the function that resets it.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resets: dict[str, Callable[[], None]] = {}

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts, in the order of a reset."""
        with self._lock:
            return tuple(self._resets)

    def part(self, name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
        """Registers the decorated function as the one that resets a part.

        Raises:
            ValueError: A part of this name exists.
        """

        def register(reset: Callable[[], None]) -> Callable[[], None]:
            with self._lock:
                if name in self._resets:
                    raise ValueError(f"The process has a part {name!r} already.")
                self._resets[name] = reset
            return reset

        return register

    def reset(self, *names: str) -> None:
        """Resets the parts of these names; without names, all of them.

        Raises:
            ValueError: A part does not exist. Then none is reset.
        """
        with self._lock:
            unknown = set(names) - self._resets.keys()
            if unknown:
                raise ValueError(
                    f"`names` must be of {', '.join(self._resets)}, got "
                    f"{', '.join(sorted(unknown))}."
                )
            resets = [self._resets[name] for name in names or self._resets]
        for reset in resets:
            reset()


STATE = ProcessState()
