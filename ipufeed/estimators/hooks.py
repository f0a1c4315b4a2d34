"""Hooks of an estimator's sessions: the infeed, the last step, the session itself."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.estimators.checks import checked_steps
from ipufeed.queues.infeed import IPUInfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedQueue
from ipufeed.tf_types import Session, SessionHook, Variable

_train = tf.compat.v1.train
_Hook: Any = _train.SessionRunHook


class QueuesHook(_Hook):  # type: ignore[misc]
    """Initializes the infeed, and deletes the queues at the end.

    Args:
        infeed: The queue of the program.
        outfeeds: Those of its results.
    """

    def __init__(self, infeed: IPUInfeedQueue, outfeeds: list[IPUOutfeedQueue]) -> None:
        self._initializer = infeed.initializer
        self._deleters = [infeed.deleter, *(each.deleter for each in outfeeds)]

    def after_create_session(self, session: Session, coord: Any) -> None:
        """Runs the initializer."""
        del coord
        session.run(self._initializer)

    def end(self, session: Session) -> None:
        """Runs the deleters."""
        session.run(self._deleters)


class KeepSessionHook(_Hook):  # type: ignore[misc]
    """Keeps the session, for ops that are run without calls of hooks.

    Attributes:
        session: The tf.compat.v1.Session.
    """

    session: Session = None

    def after_create_session(self, session: Session, coord: Any) -> None:
        """Keeps it."""
        del coord
        self.session = session


class StepsHook(_Hook):  # type: ignore[misc]
    """Ends training after a number of steps, or at a step.

    Args:
        global_step: The variable of the global step.
        iterations: The steps of a run of the program.
        steps: The number of steps, or None.
        max_steps: The global step to end at, or None. Without either number training ends
            with the dataset.
    """

    def __init__(
        self,
        global_step: Variable,
        iterations: int,
        steps: int | None,
        max_steps: int | None,
    ) -> None:
        self._global_step = global_step
        self._iterations = iterations
        self._steps = steps
        self._last = max_steps
        self._now = 0

    def after_create_session(self, session: Session, coord: Any) -> None:
        """Finds the last step.

        Raises:
            ValueError: The steps up to it are not a multiple of those of a run.
        """
        del coord
        self._now = int(session.run(self._global_step))
        if self._steps is not None:
            self._last = self._now + self._steps
        elif self._last is not None:
            left = self._last - self._now
            checked_steps("steps", max(left, self._iterations), self._iterations)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Requests the end after the last step."""
        del run_values
        self._now += self._iterations
        if self._last is not None and self._now >= self._last:
            run_context.request_stop()


def for_loops(hook: SessionHook, iterations: int) -> SessionHook:
    """Returns a hook as it must be where a run of the program has several steps.

    Hooks of TensorFlow that compare the global step expect one step in each run.

    Args:
        hook: The hook.
        iterations: The steps of a run of the program.
    """
    if type(hook) is _train.StopAtStepHook:  # a subclass has methods of its own
        return _StopHook(hook)
    if isinstance(hook, (_train.CheckpointSaverHook, _train.StepCounterHook)):
        hook._set_steps_per_run(iterations)
    return hook


class _StopHook(_Hook):  # type: ignore[misc]
    """A StopAtStepHook that reads the step after each run.

    TensorFlow's has the step of before the run and reads it again only if the next step is
    the last: after a run of several steps it would stop a run too late.
    """

    def __init__(self, hook: SessionHook) -> None:
        self._hook: Any = hook  # a StopAtStepHook, with what is private in it
        self.begin = hook.begin
        self.after_create_session = hook.after_create_session

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Requests the end at the last step."""
        del run_values
        last = _train.SessionRunValues(self._hook._last_step, None, None)
        self._hook.after_run(run_context, last)
