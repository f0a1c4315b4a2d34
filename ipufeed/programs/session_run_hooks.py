"""ipu_session_run_hooks: logs tensors of a compiled program in a session.

    hook = IPULoggingTensorHook(every_n_iter=10)
                                                  in the program: hook.log({"loss": loss})
    with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session: ...

Source: Graphcore's hook of this name, on TensorFlow's SessionRunHook and timers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.training import basic_session_run_hooks

from ipufeed.checks import as_int, as_number, flags_checked
from ipufeed.queues.arguments import drop_old_arguments, named_by_position
from ipufeed.queues.outfeed import IPUOutfeedMode, IPUOutfeedQueue
from ipufeed.queues.placement import current_ordinal
from ipufeed.tf_types import Graph, Nest, Operation

LoggingMode = IPUOutfeedMode


class IPULoggingTensorHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Logs values of a program's tensors at an interval of runs or seconds, or at the end.

    Each hook has its own outfeed for the values, so several hooks are independent.

    Args:
        every_n_iter: Log after the first run, and then after each `every_n_iter`-th; at
            least 1. Default: None.
        every_n_secs: Log after the first run, and then at most once in `every_n_secs`
            seconds; not negative. Default: None.
        at_end: Log when the session ends. Default: False.
        formatter: A function from a dict of name to value (an array) to the line. Default:
            `name = value, name = value`, with the seconds if they were measured.
        logging_mode: LoggingMode.LAST, the last value; ALL, all since the last line.
        **kwargs: `feed_name` and `replication_factor` of older releases: ignored with a
            warning.

    Raises:
        ValueError: Both intervals are given; or neither is, and `at_end` is False; or an
            interval is too small.
        TypeError: An argument is of another type.

    Threads: those of its session.
    """

    LoggingMode = LoggingMode

    @named_by_position(5, "replication_factor")
    @flags_checked
    def __init__(
        self,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
        logging_mode: IPUOutfeedMode = LoggingMode.LAST,
        **kwargs: Any,
    ) -> None:
        drop_old_arguments(
            kwargs, "IPULoggingTensorHook", "feed_name", "replication_factor"
        )
        if every_n_iter is not None and every_n_secs is not None:
            raise ValueError("Cannot provide both every_n_iter and every_n_secs")
        if every_n_iter is None and every_n_secs is None and not at_end:
            raise ValueError(
                "Either every_n_iter, every_n_secs or at_end should be provided"
            )
        _check_interval(every_n_iter, every_n_secs)
        if formatter is not None and not callable(formatter):
            raise TypeError(
                f"`formatter` must be a function, got {type(formatter).__name__}."
            )
        if not isinstance(logging_mode, IPUOutfeedMode):
            raise TypeError(
                "`logging_mode` must be a member of LoggingMode, got "
                f"{type(logging_mode).__name__}."
            )
        self._at_end = at_end
        self._formatter = formatter
        self._mode = logging_mode
        if every_n_iter is None and every_n_secs is None:
            self._timer = basic_session_run_hooks.NeverTriggerTimer()
        else:
            self._timer = tf.compat.v1.train.SecondOrStepTimer(
                every_secs=every_n_secs, every_steps=every_n_iter
            )
        self._reset()

    def _reset(self) -> None:
        self._outfeed: IPUOutfeedQueue | None = None
        self._graph: Graph | None = None  # the one with the enqueue
        self._dequeued: Nest = None
        self._deleter: Operation | None = None
        self._runs = 0

    def log(self, tensors: Nest) -> Operation | None:
        """Builds the enqueue of tensors for the hook; called once, in the program.

        Args:
            tensors: A tensor, a list or tuple of them, which are logged by their names,
                or a dict from name to tensor.

        Returns:
            The operation, which must be among the results of the program.

        Raises:
            RuntimeError: It has been called in this graph.
            TypeError: A value is not a tensor.
        """
        outer = _outermost(tf.compat.v1.get_default_graph())
        if self._graph is outer:
            raise RuntimeError(
                "Cannot use this hook object's log function more than once. Give one call "
                "all tensors, or make another hook."
            )
        if isinstance(tensors, dict):
            named = tensors
        else:
            several = tensors if isinstance(tensors, (list, tuple)) else [tensors]
            for each in several:
                if not isinstance(each, tf.Tensor):
                    raise TypeError(f"Expected `tf.Tensor`, got {type(each)}")
            named = {each.name: each for each in several}
        self._graph = outer
        self._outfeed = IPUOutfeedQueue(self._mode, device_ordinal=current_ordinal())
        return self._outfeed.enqueue(named)

    def begin(self) -> None:
        """Builds the operations that read the values, on the host.

        Raises:
            RuntimeError: `log` has not been called.
        """
        if self._outfeed is None:
            raise RuntimeError(
                "This logging hook's outfeed was not enqueued. Did you forget to call the "
                "log function?"
            )
        with tf.device("/device:CPU:0"):
            self._dequeued = self._outfeed.dequeue()
            self._deleter = self._outfeed.deleter
        self._timer.reset()
        self._runs = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Logs, if the interval is over."""
        del run_values
        if self._timer.should_trigger_for_step(self._runs):
            seconds, _ = self._timer.update_last_triggered_step(self._runs)
            self._log_values(run_context.session, seconds)
        self._runs += 1

    def end(self, session: Any) -> None:
        """Logs with `at_end`; the hook can then be used in another session."""
        if self._at_end:
            self._log_values(session, None)
        session.run(self._deleter)
        self._reset()

    def _log_values(self, session: Any, seconds: float | None) -> None:
        values = session.run(self._dequeued)
        before = np.get_printoptions()
        np.set_printoptions(suppress=True)
        try:
            tf.compat.v1.logging.info(self._line(values, seconds))
        finally:
            np.set_printoptions(**before)

    def _line(self, values: dict[str, Any], seconds: float | None) -> str:
        if self._formatter is not None:
            return self._formatter(values)
        line = ", ".join(f"{name} = {value}" for name, value in values.items())
        return line if seconds is None else f"{line} ({seconds:.3f} sec)"


def _check_interval(runs: object, seconds: object) -> None:
    """Checks `every_n_iter` and `every_n_secs`; the timer would fail in a later run."""
    if runs is not None and as_int("every_n_iter", runs, " or None") < 1:
        raise ValueError(f"`every_n_iter` must be at least 1, got {runs}.")
    if seconds is not None and not as_number("every_n_secs", seconds) >= 0:
        raise ValueError(f"`every_n_secs` must be at least 0, got {seconds}.")


def _outermost(graph: Graph) -> Graph:
    """Returns the outermost graph of a function's graph, which a session runs."""
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph
