"""Captures gradients of tensors inside a model.

    x = capture_upstream_gradients(dense(x), tag="hidden")      in the model

    with GradientCaptureContext() as context:
        gradients = tf.gradients(loss, weights)
    context.captured_gradients["hidden"]          [d loss / d x], of the same backward pass

In a pipeline the context is an argument of OptimizerFunctionOutput, which passes the
captured gradients to an outfeed queue, to the optimizer, or to both.

Source: Graphcore's functions and classes of these names.
"""

from __future__ import annotations

import contextvars

import tensorflow as tf

from ipufeed.checks import flags_checked
from ipufeed.tf_types import Nest, NestFunction, Tensor

_active: contextvars.ContextVar[tuple[GradientCaptureContext, ...]] = (
    contextvars.ContextVar("ipufeed_gradient_captures", default=())
)


class GradientCaptureContext:
    """Captures the gradients that are built within it, unless a context inside it does.

        with GradientCaptureContext() as context:
            x = capture_upstream_gradients(x, tag="x")
            train = optimizer.minimize(loss(x))
        (x_gradient,) = context.captured_gradients["x"]

    A context that is entered again starts empty.

    Threads: each has contexts of its own.
    """

    def __init__(self) -> None:
        self._captured: dict[str, list[Tensor]] = {}

    @property
    def captured_gradients(self) -> dict[str, list[Tensor]]:
        """Lists of gradients by tag, in the order of capture: one for each tensor."""
        return {tag: list(each) for tag, each in self._captured.items()}

    def __enter__(self) -> GradientCaptureContext:
        self._captured = {}
        _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        # Its own entry is the last: contexts are left in reverse order.
        _active.set(_active.get()[:-1])

    def add(self, tag: str, gradients: list[Tensor]) -> None:
        """Adds the gradients of one capturing call.

        Raises:
            ValueError: An earlier call has the same tag.
        """
        if tag in self._captured:
            raise ValueError(
                "Gradient exists in the captured grads frame. Two calls of "
                f"capture_upstream_gradients have the tag {tag!r}: give each its own."
            )
        self._captured[tag] = gradients


def num_gradient_collection_tapes() -> int:
    """Returns the number of contexts of this thread that capture gradients now."""
    return len(_active.get())


class GradientCaptureTape(tf.GradientTape):  # type: ignore[misc]
    """A tf.GradientTape that also captures gradients, in `gradient`.

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
    def captured_gradients(self) -> dict[str, list[Tensor]]:
        """Lists of gradients by tag, of the last call of `gradient`."""
        return self.context.captured_gradients

    def gradient(self, *args: Nest, **kwargs: object) -> Nest:
        """Returns the gradients of the sources; see tf.GradientTape."""
        with self.context:
            return super().gradient(*args, **kwargs)


def capture_upstream_gradients(args: Nest, tag: str = "") -> Nest:
    """Marks tensors whose gradients are captured when they are built.

    Use the returned tensors in place of `args`: their consumers' gradients are captured.

    Args:
        args: A floating-point tensor, or any structure of them.
        tag: The key of their list of gradients. Default: "".

    Returns:
        The tensors, in the same structure.

    Raises:
        TypeError: A tensor is not of floating point, so that it has no gradient; or the
            tag is not a str.
        ValueError: `args` has no tensor. When gradients are built: another call has the
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
    def same(*values: Tensor) -> tuple[list[Tensor], NestFunction]:
        def gradient(*upstream: Tensor) -> list[Tensor]:
            contexts = _active.get()
            if not contexts:
                raise RuntimeError(
                    "tensorflow.python.ipu.ops.grad_util_ops.capture_upstream_gradients "
                    "may only be used within the context of "
                    "tensorflow.python.ipu.eager.GradientCaptureTape or "
                    "GradientCaptureContext."
                )
            # A gather's gradient is slices: a queue takes, and a pipeline adds, tensors.
            dense = [tf.convert_to_tensor(each) for each in upstream]
            # Separate ops, so that in a pipeline they belong to the tensors' stage.
            kept = [tf.identity(each, name="captured_gradient") for each in dense]
            contexts[-1].add(tag, kept)
            return kept

        return [tf.identity(each) for each in values], gradient

    found = same(*flat)
    several = list(found) if isinstance(found, (list, tuple)) else [found]
    return tf.nest.pack_sequence_as(args, several)


def flat_gradients(captured: dict[str, list[Tensor]]) -> dict[tuple[str, int], Tensor]:
    """Flattens the lists: keys are a tag and a place in the tag's list."""
    return {
        (tag, place): each
        for tag, gradients in captured.items()
        for place, each in enumerate(gradients)
    }


def by_tag(flat: dict[tuple[str, int], Tensor]) -> dict[str, list[Tensor]]:
    """Inverts flat_gradients, for values of any type."""
    found: dict[str, list[Tensor]] = {}
    for (tag, _), each in flat.items():
        found.setdefault(tag, []).append(each)
    return found
