"""Programs for tests: traced and lowered as for a device, and not compiled.

with lowering() as lower:
    before = lower(function, tf.ones([4]))    # ipufeed.executable.program.program.Program
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.errors import RecompileError
from ipufeed.executable.compile import programs
from ipufeed.executable.program.program import Program


@contextmanager
def lowering() -> Iterator[Callable[..., Program]]:
    """Gives what lowers a function for arguments; its keyword `ordinal` is an IPU."""
    caught: list[Program] = []

    begin = programs.begin

    def stop(lowered: Any) -> None:
        begin(lowered)
        caught.append(programs.take(lowered.id).program)
        raise RecompileError("this is far enough")

    def lower(
        function: Callable[..., Any], *arguments: Any, ordinal: int = 0
    ) -> Program:
        caught.clear()
        program = tf.function(function, jit_compile=True, autograph=False)
        strategy = IPUStrategy(f"/device:IPU:{ordinal}")
        try:
            with strategy.scope():
                strategy.run(program, [tf.constant(each) for each in arguments])
        except tf.errors.OpError as error:
            assert "far enough" in str(error)  # noqa: PT017 - others are the test's
        (only,) = caught
        return only

    with mock.patch.object(programs, "begin", stop):
        yield lower
