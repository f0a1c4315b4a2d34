"""Gradients of tensors in the middle of a model, for the caller to see or use.

    x = capture_upstream_gradients(dense(x), tag="hidden")      in the model
                                                                          .
    with GradientCaptureContext() as context:                             .
        gradients = tf.gradients(loss, weights)                           .
    context.captured_gradients["hidden"]          d loss / d x, of the same backward pass

In a pipeline the context is given to OptimizerFunctionOutput, which passes what has been
captured to an outfeed queue, to the optimizer, or to both.

Source: Graphcore's functions and classes of these names.
"""

from __future__ import annotations

import contextvars
from typing import Any

import tensorflow as tf

_active: contextvars.ContextVar[tuple[GradientCaptureContext, ...]] = (
    contextvars.ContextVar("ipufeed_gradient_captures", default=())
)


class GradientCaptureContext:
    """Within it gradients are captured; the innermost one gets them.

        with GradientCaptureContext() as context:
            x = capture_upstream_gradients(x, tag="x")
            train = optimizer.minimize(loss(x))
        x_gradient = context.captured_gradients["x"]

    What counts is what gradients are *built* in, and only where they are built in none what
    the tensors were marked in. A context that is entered again starts again.

    Threads: each has contexts of its own.
    """

    def __init__(self) -> None:
        self._captured: dict[str, Any] = {}

    @property
    def captured_gradients(self) -> dict[str, Any]:
        """Gradients by their tags, in the order in which they were captured."""
        return dict(self._captured)

    def __enter__(self) -> GradientCaptureContext:
        self._captured = {}
        _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: Any) -> None:
        # Its own entry, which is the last: contexts are left in reverse order.
        _active.set(_active.get()[:-1])

    def add(self, tag: str, gradient: Any) -> None:
        """Another one; one of the same tag gets a number behind it."""
        name, number = tag, 1
        while name in self._captured:
            name, number = f"{tag}_{number}", number + 1
        self._captured[name] = gradient


class GradientCaptureTape(tf.GradientTape):  # type: ignore[misc]
    """A tf.GradientTape that has the captured gradients after `gradient`, too.

    Args:
        persistent, watch_accessed_variables: See tf.GradientTape.
    """

    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True
    ) -> None:
        super().__init__(persistent, watch_accessed_variables)
        self.context = GradientCaptureContext()

    @property
    def captured_gradients(self) -> dict[str, Any]:
        """Gradients by their tags, those of the last call of `gradient`."""
        return self.context.captured_gradients

    def gradient(self, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the sources; see tf.GradientTape."""
        with self.context:
            return super().gradient(*args, **kwargs)


def capture_upstream_gradients(inputs: Any, tag: str | None = None) -> Any:
    """The same tensors, whose gradients are captured when they are computed.

    Use what it returns in place of `inputs`: the gradient is that of what follows.

    Args:
        inputs: A floating-point tensor, or a list or tuple of them.
        tag: What the gradient is called; those of a list have numbers behind it. Default:
            the name of each tensor's op, "captured" in eager mode.

    Returns:
        A tensor, a list or a tuple, as `inputs` is.

    Raises:
        TypeError: A tensor is not of floating point: it has no gradient; or the tag is
            not a text.
    """
    if tag is not None and not isinstance(tag, str):
        raise TypeError(
            "`tag` of capture_upstream_gradients must be a str or None, got "
            f"{type(tag).__name__} {tag!r}."
        )
    if not isinstance(inputs, (list, tuple)):
        return captured(inputs, tag)
    found = [
        captured(each, None if tag is None else f"{tag}_{number}")
        for number, each in enumerate(inputs)
    ]
    return tuple(found) if isinstance(inputs, tuple) else found


def captured(tensor: Any, tag: str | None) -> Any:
    """One tensor, whose gradient is captured."""
    tensor = tf.convert_to_tensor(tensor)
    if not tensor.dtype.is_floating:
        raise TypeError(
            "capture_upstream_gradients takes tensors of floating point, which have "
            f"gradients, got {tensor.dtype.name}."
        )
    if tag is None:
        tag = "captured" if tf.executing_eagerly() else str(tensor.op.name)
    around = _active.get()

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def same(x: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            # An op of its own, so that in a pipeline it belongs to the tensor's stage.
            kept = tf.identity(upstream, name="captured_gradient")
            contexts = _active.get() or around
            if contexts:
                contexts[-1].add(tag, kept)
            return kept

        return tf.identity(x), gradient

    return same(tensor)
