"""The message of the error with which a dataset failed."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

# An error of ipufeed.sources, inside TensorFlow's message for a failed Python function.
OWN_ERROR = re.compile(
    r"(?:^|\s)(?:SourceError|DamagedFileError): (?P<sentence>.*?)\s*"
    r"^Traceback \(most recent call last\):",
    re.DOTALL | re.MULTILINE,
)

TRACEBACK = re.compile(
    r"^(?P<what>.*?)\s*^Traceback \(most recent call last\):\n(?P<rest>.*)",
    re.DOTALL | re.MULTILINE,
)
# `  File "path", line 1, in name`, and the lines of code below it.
FRAME = re.compile(
    r"^  File \"(?P<path>[^\n\"]*)\"[^\n]*\n(?:    [^\n]*\n)*", re.MULTILINE
)
# Frames to leave out: they do not help the function's author.
LIBRARIES = ("/tensorflow/python/", f"{pathlib.Path(__file__).parents[2]}/")


def sentence_of(error: Mapping[str, Any]) -> str:
    """Returns the part of a result's error message that helps the user.

    The message of an error of ipufeed.sources, without a traceback; of another traceback,
    the frames outside of TensorFlow and ipufeed.
    """
    message = str(error["message"])
    own = OWN_ERROR.search(message)
    if own is not None:
        return own["sentence"]
    found = TRACEBACK.search(message)
    if found is None:
        return message
    frames = [
        frame[0].rstrip()
        for frame in FRAME.finditer(found["rest"])
        if not any(library in frame["path"] for library in LIBRARIES)
    ]
    return "\n".join([found["what"], *frames]) if frames else message
