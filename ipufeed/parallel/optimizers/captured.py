"""Gradients of tensors in the middle of a model, for the caller to see or use.

    x = capture_upstream_gradients(dense(x), tag="hidden")      in the model
                                                                          .
    with GradientCaptureContext() as context:                             .
        gradients = tf.gradients(loss, weights)                           .
    context.captured_gradients["hidden"]          [d loss / d x], of the same backward pass

In a pipeline the context is given to OptimizerFunctionOutput, which passes what has been
captured to an outfeed queue, to the optimizer, or to both.

Source: Graphcore's functions and classes of these names.
"""

from __future__ import annotations

import contextvars
from typing import Any

import tensorflow as tf

from ipufeed.checks import flags_checked

_active: contextvars.ContextVar[tuple[GradientCaptureContext, ...]] = (
    contextvars.ContextVar("ipufeed_gradient_captures", default=())
)


class GradientCaptureContext:
    """Within it gradients are captured; the innermost one gets them.

        with GradientCaptureContext() as context:
            x = capture_upstream_gradients(x, tag="x")
            train = optimizer.minimize(loss(x))
        (x_gradient,) = context.captured_gradients["x"]

    What counts is what gradients are *built* in. A context that is entered again starts
    again.

    Threads: each has contexts of its own.
    """

    def __init__(self) -> None:
        self._captured: dict[str, list[Any]] = {}

    @property
    def captured_gradients(self) -> dict[str, list[Any]]:
        """By tag, in the order in which they were captured: a list, one for each tensor."""
        return {tag: list(each) for tag, each in self._captured.items()}

    def __enter__(self) -> GradientCaptureContext:
        self._captured = {}
        _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: Any) -> None:
        # Its own entry, which is the last: contexts are left in reverse order.
        _active.set(_active.get()[:-1])

    def add(self, tag: str, gradients: list[Any]) -> None:
        """What one call has captured.

        Raises:
            ValueError: Another call of the same tag was there first.
        """
        if tag in self._captured:
            raise ValueError(
                "Gradient exists in the captured grads frame. Two calls of "
                f"capture_upstream_gradients have the tag {tag!r}: give each its own."
            )
        self._captured[tag] = gradients


def num_gradient_collection_tapes() -> int:
    """How many contexts of this thread capture gradients now."""
    return len(_active.get())


class GradientCaptureTape(tf.GradientTape):  # type: ignore[misc]
    """A tf.GradientTape that has the captured gradients after `gradient`, too.

    Args:
        persistent, watch_accessed_variables: See tf.GradientTape.
    """

    @flags_checked
    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True
    ) -> None:
        super().__init__(persistent, watch_accessed_variables)
        self.context = GradientCaptureContext()

    @property
    def captured_gradients(self) -> dict[str, list[Any]]:
        """Lists of gradients by tag, those of the last call of `gradient`."""
        return self.context.captured_gradients

    def gradient(self, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the sources; see tf.GradientTape."""
        with self.context:
            return super().gradient(*args, **kwargs)


def capture_upstream_gradients(args: Any, tag: str = "") -> Any:
    """The same tensors, whose gradients are captured when they are computed.

    Use what it returns in place of `args`: the gradients are those of what follows.

    Args:
        args: A floating-point tensor, or any structure of them.
        tag: What the gradients are called: a list of one for each tensor. Default: "".

    Returns:
        The tensors, in the same structure.

    Raises:
        TypeError: A tensor is not of floating point: it has no gradient; or the tag is
            not a text.
        ValueError: There is no tensor. When gradients are built: another call has the
            same tag.
        RuntimeError: When gradients are built: not in a GradientCaptureTape or
            GradientCaptureContext.
    """
    if not isinstance(tag, str):
        raise TypeError(
            "`tag` of capture_upstream_gradients must be a str, got "
            f"{type(tag).__name__} {tag!r}."
        )
    flat = [tf.convert_to_tensor(each) for each in tf.nest.flatten(args)]
    if not flat:
        raise ValueError("`args` must hold at least one tensor, got none.")
    for tensor in flat:
        if not tensor.dtype.is_floating:
            raise TypeError(
                "capture_upstream_gradients takes tensors of floating point, which have "
                f"gradients, got {tensor.dtype.name}."
            )

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def same(*values: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            contexts = _active.get()
            if not contexts:
                raise RuntimeError(
                    "tensorflow.python.ipu.ops.grad_util_ops.capture_upstream_gradients "
                    "may only be used within the context of "
                    "tensorflow.python.ipu.eager.GradientCaptureTape or "
                    "GradientCaptureContext."
                )
            # Ops of their own, so that in a pipeline they belong to the tensors' stage.
            kept = [tf.identity(each, name="captured_gradient") for each in upstream]
            contexts[-1].add(tag, kept)
            return kept

        return [tf.identity(each) for each in values], gradient

    found = same(*flat)
    several = list(found) if isinstance(found, (list, tuple)) else [found]
    return tf.nest.pack_sequence_as(args, several)


def flat_gradients(captured: dict[str, list[Any]]) -> dict[tuple[str, int], Any]:
    """By tag and place in the tag's list."""
    return {
        (tag, place): each
        for tag, gradients in captured.items()
        for place, each in enumerate(gradients)
    }


def by_tag(flat: dict[tuple[str, int], Any]) -> dict[str, list[Any]]:
    """Undoes flat_gradients, whatever the values are."""
    found: dict[str, list[Any]] = {}
    for (tag, _), each in flat.items():
        found.setdefault(tag, []).append(each)
    return found
