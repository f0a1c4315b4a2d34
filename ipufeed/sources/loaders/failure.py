"""What a loader raises, as the result shows it: type, text, line of its code, remedy."""

from __future__ import annotations

import os
import sysconfig
import traceback

# Folders of Python and its packages; code of the user is elsewhere.
_PACKAGES = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")
)
# The folders of the code that reads loaders.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_OURS = [os.path.join(_PACKAGE, room, "loaders") for room in ("sources", "benchmark")]
# What a worker's end shows as, where the process that reads from it has no better sign.
_CUT_OFF = (ConnectionError, EOFError, FileNotFoundError)


class LoaderError(Exception):
    """A loader's exception, with the attributes of TensorFlow's errors.

    Attributes:
        kind: The name of the exception's class.
        message: Its text, and the line of the loader's code that raised it.
    """

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error).__name__
        text = _text_of(error)
        self.message = f"{text}{place_of(error)}{_remedy(error, text)}".lstrip()
        super().__init__(self.message)


class EmptyLoaderError(ValueError):
    """A loader that has no element cannot feed a device."""


def _text_of(error: BaseException) -> str:
    """Returns the error's text; "" of one whose `__str__` raises."""
    try:
        return str(error)
    except Exception:
        return ""


def _remedy(error: BaseException, text: str) -> str:
    """Returns how to avoid what fails here and not in training, after a period; or ""."""
    if "before flags were parsed" in text:  # in Grain's worker processes
        return (
            '. At the top level of the file parse the flags: `absl.flags.FLAGS(["file"])`, '
            "as absl.app.run() does."
        )
    if isinstance(error, _CUT_OFF) and _is_of_a_connection(error):
        return (
            ". Perhaps a worker process of the loader has ended: run the loader without "
            "worker processes to see why."
        )
    if "main thread" in text:
        found = "install signal handlers at the top level of the file"
    elif "current event loop" in text:
        found = "create the event loop with asyncio.new_event_loop() or asyncio.run()"
    else:
        return ""
    return f". The loader is read on a separate thread: {found}."


def _is_of_a_connection(error: BaseException) -> bool:
    """Whether it was raised while reading what another process sends."""
    frames = traceback.extract_tb(error.__traceback__)
    name = os.path.join("multiprocessing", "connection.py")
    return any(frame.filename.endswith(name) for frame in frames[-4:])


def place_of(error: BaseException) -> str:
    """Returns ` (batches.py:12)`: the innermost line of the loader, or "".

    That of the user's code, if there is any, rather than that of a package. Of an error
    that has the traceback of a worker process in its text there is none: the line that
    raises it again is of no interest.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        number
        for number, frame in enumerate(frames)
        if os.path.dirname(frame.filename) in _OURS
    ]
    called = frames[ours[-1] + 1 :] if ours else list(frames)
    users = [frame for frame in called if not frame.filename.startswith(_PACKAGES)]
    if "Traceback (most recent call last)" in _text_of(error) and not users:
        return ""
    found = users or called
    return f" ({found[-1].filename}:{found[-1].lineno})" if found else ""
