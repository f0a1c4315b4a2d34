"""Calls in eager mode, of functions and queue ops: errors, and the programs' end."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import cancellation
from tensorflow.python.framework import errors

from ipufeed import _native
from ipufeed.queues.library_errors import explain_thrown, texts_of_function
from ipufeed.queues.placement import explain_resource
from ipufeed.queues.xla_errors import explain_xla
from ipufeed.tf_patches.changes import replace

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
        if isinstance(error, tf.errors.OpError) and _PREFIX.match(error.message):
            text = _SUFFIX.sub("", _PREFIX.sub("", error.message))
            raise type(error)(None, None, text) from None


_end_of_eager_calls: Callable[[], None] | None = None


def end_eager_call() -> None:
    """Ends the program of a queue op that was called eagerly, which frees its queues.

    Such an op is a program by itself, and has no other end.
    """
    if _end_of_eager_calls is not None:
        _end_of_eager_calls()


class _ThreadManager(threading.local):
    manager: Any = None  # the CancellationManager of the thread's current call


def ends_programs_of_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps Context.call_function to end the function's program, which frees its queues.

    The native queue ops are not notified when a function that TensorFlow's executor runs
    has ended (ipufeed/cc/run/step_program.h). So each call has its own cancellation
    manager, which identifies the ops' program and is cancelled when the call has ended.
    When no other call is running, all programs are ended.
    """
    global _end_of_eager_calls
    # A set and not a number: Ctrl-C may come before or after a call was added, and its
    # removal is right in both cases.
    running: set[object] = set()
    lock = threading.Lock()
    last = _native.entry().ipufeed_last_program
    end = _native.entry().ipufeed_end_eager_programs

    # Both end programs up to the last one that they have seen under the lock: a call that
    # begins in another thread just after that has a later one.
    def end_unless_running() -> None:
        with lock:
            seen = -1 if running else last()
        if seen >= 0:
            end(seen)

    _end_of_eager_calls = end_unless_running
    own = _ThreadManager()
    stock = cancellation.context
    # TensorFlow's manager is process-wide; Context.call_function gets it by this name.
    replace(cancellation, "context", lambda: own.manager or stock())

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        this_call, manager = object(), None
        try:
            with lock:
                running.add(this_call)
            if cancellation.context() is not None:
                return function(self, *args, **kwargs)
            own.manager = manager = cancellation.CancellationManager()
            return function(self, *args, **kwargs)
        except errors.InvalidArgumentError as error:
            explain_resource(error)
            explain_xla(error)
            raise
        except errors.OpError as error:
            name = args[0] if args else kwargs["name"]
            explain_thrown(error, texts_of_function(self, name))
            raise
        finally:
            own.manager = None if manager is not None else own.manager
            with lock:
                running.discard(this_call)
                seen = -1 if running else last()
            if seen >= 0:
                end(seen)
            elif manager is not None:
                manager.start_cancel()

    return call
