"""Removes TensorFlow's additions from the errors of eager queue operations."""

from __future__ import annotations

import re

# TensorFlow's prefix and suffix of an error of an eager operation.
_PREFIX = re.compile(r"^\{\{function_node __wrapped__[^}]*\}\} ")
_SUFFIX = re.compile(r" \[Op:\w+\]( name: ?)?$")


class plain_errors:  # noqa: N801 (used like a function)
    """Context manager that removes node and operation names from an error's text.

    A class instead of a generator, which is slower: each eager dequeue enters it.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None:
            return
        import tensorflow as tf

        if isinstance(error, tf.errors.OpError) and _PREFIX.match(error.message):
            text = _SUFFIX.sub("", _PREFIX.sub("", error.message))
            raise type(error)(None, None, text) from None
