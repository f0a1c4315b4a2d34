"""What to tell people of the error that a dataset has failed with."""

from __future__ import annotations

import re
from typing import Any

# An error of ours, in the words that TensorFlow gives to what a Python function raised.
OWN_ERROR = re.compile(
    r"(?:^|\s)(?:SourceError|DamagedFileError): (?P<sentence>.*?)\s*"
    r"^Traceback \(most recent call last\):",
    re.DOTALL | re.MULTILINE,
)


def sentence_of(error: dict[str, Any]) -> str:
    """The message of `Result.error`, as far as it is for people.

    An error of our own sources is a sentence that says what to do: where in our code it
    was raised is nobody's concern. The traceback of a user's function stays.
    """
    message = str(error["message"])
    found = OWN_ERROR.search(message)
    return message if found is None else found["sentence"]
