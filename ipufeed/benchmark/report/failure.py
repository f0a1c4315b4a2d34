"""The message for the error that a dataset has failed with."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

# An error of ours, in the words that TensorFlow gives to what a Python function raised.
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
# Whose frames are of no use to the function's author.
LIBRARIES = ("/tensorflow/python/", f"{pathlib.Path(__file__).parents[2]}/")


def sentence_of(error: Mapping[str, Any]) -> str:
    """The message of `Result.error`, as far as it is for people.

    An error of our own sources has the cure in its message: where in our code it
    was raised is left out. Of the traceback of a user's function the lines stay
    that are not in TensorFlow.
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
