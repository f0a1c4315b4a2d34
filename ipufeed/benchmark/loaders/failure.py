"""What a loader raises, as the result shows it: type, text, line of its code, remedy."""

from __future__ import annotations

import os
import traceback


class LoaderError(Exception):
    """A loader's exception, with the attributes of TensorFlow's errors.

    Attributes:
        kind: The name of the exception's class.
        message: Its text, and the line of the loader's code that raised it.
    """

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error).__name__
        self.message = f"{error}{place_of(error)}{_remedy(error)}".lstrip()
        super().__init__(self.message)


def _remedy(error: BaseException) -> str:
    """Returns how to avoid what fails here and not in training, after a period; or ""."""
    text = str(error)
    if "before flags were parsed" in text:  # in Grain's worker processes
        return (
            '. At the top level of the file parse the flags: `absl.flags.FLAGS(["file"])`, '
            "as absl.app.run() does."
        )
    if "main thread" in text:
        found = "install signal handlers at the top level of the file"
    elif "current event loop" in text:
        found = "create the event loop with asyncio.new_event_loop() or asyncio.run()"
    else:
        return ""
    return f". The loader is read on a separate thread: {found}."


def place_of(error: BaseException) -> str:
    """Returns ` (batches.py:12)`: the innermost line of the loader, or ""."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.dirname(frame.filename) != os.path.dirname(__file__)
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
