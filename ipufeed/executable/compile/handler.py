"""Installs the handler of programs' events, and loads it at the first event.

`import ipufeed` installs it. What handles an event (programs.py: keys, cache files,
reports) is a third of ipufeed's modules, and a process without a program needs none of
them.

Threads: events come on any thread; the first ones load the module once.
"""

from __future__ import annotations

import functools
import os

from ipufeed import _native
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.system import system
from ipufeed.executable.compile import phase_log
from ipufeed.executable.program import events as native
from ipufeed.executable.program.events import Event, ProgramCall, RunMode

RUN_MODES = {
    DeviceConnectionType.PRE_COMPILE: RunMode.ZEROS,
    DeviceConnectionType.NEVER: RunMode.REFUSE,
}


def _handle(event: Event, call: ProgramCall) -> None:
    from ipufeed.executable.compile import programs

    programs.handle(event, call)


_callback = native.callback(_handle)
_generation = 0  # of the system that the core's programs are compiled for


def _follow_configuration() -> None:
    """Adapts the core to a changed configuration: devices are empty, modes may differ.

    Programs of another configuration are forgotten, and compiled again with their reports;
    setting the same configuration again keeps them.
    """
    global _generation
    entry = _native.entry()
    entry.ipufeed_forget_loaded()
    if _generation != system.generation():  # under the system's lock
        _generation = system.generation()
        entry.ipufeed_forget_programs()
    entry.ipufeed_set_log_ops(phase_log.logs_phases())
    mode = RUN_MODES.get(system.connection_type(), RunMode.RUN)
    entry.ipufeed_set_run_mode(mode)


@functools.cache
def install() -> None:
    """Installs the handler for programs of simulated IPUs, once."""
    entry = _native.entry()
    entry.ipufeed_set_on_program(_callback)
    system.on_change(_follow_configuration)
    entry.ipufeed_set_log_ops(phase_log.logs_phases())
    if "PVTI_OPTIONS" in os.environ:
        from ipufeed.executable.tracing import recorder

        recorder.follow_environment()
