"""Activations, losses over sampled classes, CTC, and groups of convolutions."""

from __future__ import annotations

import functools
import reprlib
from typing import Any, cast

import tensorflow as tf

from ipufeed.checks import (
    as_count,
    as_floats,
    as_int,
    as_numbers,
    as_tensor,
    check_function,
    flags_checked,
)
from ipufeed.device.random.candidates import Seed, sample_classes
from ipufeed.no_effect import no_effect
from ipufeed.ops.losses.ctc import (
    ctc_beam_search_decoder as ctc_beam_search_decoder,
)
from ipufeed.ops.losses.ctc import (
    ctc_beam_search_decoder_with_log_probs as ctc_beam_search_decoder_with_log_probs,
)
from ipufeed.ops.losses.ctc import ctc_loss_v2 as ctc_loss_v2
from ipufeed.ops.losses.ctc import ctc_loss_with_log_probs as ctc_loss_with_log_probs
from ipufeed.ops.rows import with_dense_gradient
from ipufeed.tf_types import Nest, NestFunction, Tensor, TensorLike


@flags_checked
def gelu(x: TensorLike, approximate: bool = True, name: str | None = None) -> Tensor:
    """Computes the Gaussian error linear unit.

    Args:
        x: A tensor of floats.
        approximate: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). Else
            0.5 x (1 + erf(x / sqrt(2))).
        name: The operation's name.

    Returns:
        A tensor like x.
    """
    return tf.nn.gelu(as_floats("x", x), approximate, name)


def hard_sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """Computes 0.2 x + 0.5, clipped to [0, 1]."""
    with tf.name_scope(name or "hard_sigmoid"):
        x = as_floats("x", x)
        half = tf.cast(0.5, x.dtype)
        return tf.clip_by_value(tf.cast(0.2, x.dtype) * x + half, 0, 1)


def swish(x: TensorLike, name: str | None = None) -> Tensor:
    """Computes x sigmoid(x)."""
    with tf.name_scope(name or "swish"):
        return tf.nn.silu(as_floats("x", x))


@flags_checked
def softmax(x: TensorLike, stable: bool = False, name: str | None = None) -> Tensor:
    """Computes the softmax over the last axis.

    Args:
        x: A tensor of floats.
        stable: Whether to subtract the maximum first. False does so too here, and so does
            not overflow either.
        name: The operation's name.

    Returns:
        A tensor like x.
    """
    del stable
    return tf.nn.softmax(as_floats("x", x), name=name)


def multi_conv(
    func: NestFunction | None = None, options: dict[str, Any] | None = None
) -> NestFunction:
    """Marks a function whose convolutions an IPU may compute in parallel.

        @multi_conv
        def both(x, y):
            return tf.nn.conv2d(x, a, 1, "SAME"), tf.nn.conv2d(y, b, 1, "SAME")

    Args:
        func: A function of tensors that returns a structure of tensors.
        options: Options of an IPU's convolutions, without an effect here.

    Returns:
        The function; without func a decorator.

    Raises:
        TypeError: `func` is not a function; at a call: `options` is not a dict.
    """
    if func is not None:
        check_function("func", func)

    def decorate(function: NestFunction) -> NestFunction:
        @functools.wraps(function)
        def call(*args: Tensor) -> Nest:
            if options is not None and not isinstance(options, dict):
                raise TypeError(
                    "Expected the multi_conv `options` to be a `dict`, but got "
                    f"{options} instead."
                )
            if options:
                no_effect(
                    "multi_conv(options=)",
                    "they are for convolutions on an IPU's tiles",
                )
            return function(*args)

        return call

    return decorate if func is None else decorate(func)


def sampled_softmax_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: tuple[Tensor, Tensor, Tensor] | None = None,
    name: str | None = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Computes the softmax loss over the true classes and a sample of classes.

    Sampled classes that are true ones are included, unlike TensorFlow's default. The
    gradients of `weights` and `biases` are tensors, not slices.

    Args:
        weights: [num_classes, width]; of a list the first one.
        biases: [num_classes].
        labels: int64 [batch, num_true].
        inputs: [batch, width].
        num_sampled: The number of different classes to sample.
        num_classes: The number of classes.
        num_true: The number of true classes per example, at least 1.
        sampled_values: (classes, expected counts of the true, of the sampled). Default:
            samples of the log-uniform distribution, with the device's seed.
        name: The operations' name.
        seed: The op's seed; see tf.random.set_seed.

    Returns:
        [batch].

    Raises:
        TypeError: `num_sampled`, `num_classes` or `num_true` is not an int, the inputs are
            not floats, or the sampled values not three.
        ValueError: `num_sampled` is not in [1, num_classes], `weights` or `biases` has not
            a row for each class, or `labels` not `num_true` classes for each input.
    """
    num_sampled = as_int("num_sampled", num_sampled)
    num_classes = as_int("num_classes", num_classes)
    weights = _of_classes("weights", _first(weights), num_classes)
    biases = _of_classes("biases", biases, num_classes)
    labels, inputs = _of_examples(labels, inputs, num_true)
    sampled = _given_samples(sampled_values) or sample_classes(
        labels,
        num_sampled,
        num_classes,
        Seed(0 if seed is None else as_int("seed", seed, " or None")),
    )
    return tf.nn.sampled_softmax_loss(
        with_dense_gradient(weights),
        with_dense_gradient(biases),
        tf.cast(labels, tf.int64),
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values=sampled,
        remove_accidental_hits=False,
        name=name or "sampled_softmax_loss",
    )


def nce_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: tuple[Tensor, Tensor, Tensor] | None = None,
    name: str | None = "nce_loss",
) -> Tensor:
    """Computes the noise-contrastive loss: sigmoids of the true and sampled classes.

    Args, Returns, Raises: See sampled_softmax_loss.
    """
    num_sampled = as_int("num_sampled", num_sampled)
    num_classes = as_int("num_classes", num_classes)
    weights = _of_classes("weights", _first(weights), num_classes)
    biases = _of_classes("biases", biases, num_classes)
    labels, inputs = _of_examples(labels, inputs, num_true)
    sampled = _given_samples(sampled_values) or sample_classes(
        labels, num_sampled, num_classes, Seed(0)
    )
    return tf.nn.nce_loss(
        with_dense_gradient(weights),
        with_dense_gradient(biases),
        tf.cast(labels, tf.int64),
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values=sampled,
        remove_accidental_hits=False,
        name=name or "nce_loss",
    )


def _first(weights: Tensor) -> Tensor:
    if not isinstance(weights, (list, tuple)):
        return weights
    if not weights:
        raise ValueError("`weights` must be a tensor, or a list of one, got no tensor.")
    return weights[0]


def _given_samples(values: object) -> tuple[Tensor, Tensor, Tensor] | None:
    """Returns the argument `sampled_values` if it is None or has three parts."""
    if values is None:
        return None
    if not isinstance(values, (list, tuple)) or len(values) != 3:
        raise TypeError(
            "`sampled_values` must be (classes, expected counts of the true, of the "
            "sampled), as tf.random.log_uniform_candidate_sampler returns them, got "
            f"{type(values).__name__} {reprlib.repr(values)}. Leave it out for samples of "
            "the device."
        )
    return cast("tuple[Tensor, Tensor, Tensor]", tuple(values))


def _of_examples(
    labels: TensorLike, inputs: TensorLike, num_true: int
) -> tuple[Tensor, Tensor]:
    """Converts `labels` and `inputs`, which must have an example in each row.

    TensorFlow would repeat one label for all inputs.
    """
    num_true = as_count("num_true", num_true)
    labels, inputs = as_numbers("labels", labels), as_floats("inputs", inputs)
    if inputs.shape.rank not in (None, 2):
        raise ValueError(
            f"`inputs` must have the shape [batch, width], got {inputs.shape}."
        )
    if labels.shape.is_fully_defined() and inputs.shape.rank is not None:
        batch = tf.compat.dimension_value(inputs.shape[0])
        if batch is not None and labels.shape.num_elements() != batch * num_true:
            raise ValueError(
                f"`labels` must have the shape [batch, num_true], here [{batch}, "
                f"{num_true}] as `inputs` has {batch} rows, got {labels.shape}."
            )
    return labels, inputs


def _of_classes(name: str, values: TensorLike, num_classes: int) -> Tensor:
    """Converts `weights` or `biases`, of which a compiled gather takes any row.

    Raises:
        ValueError: It has fewer rows than there are classes, or another rank.
    """
    tensor = as_tensor(name, values)
    rank, each = (2, "row") if name == "weights" else (1, "number")
    shape = tensor.shape
    if shape.rank is not None and (
        shape.rank != rank or (shape[0] is not None and shape[0] < num_classes)
    ):
        raise ValueError(
            f"`{name}` must have a {each} for each of the {num_classes} classes of "
            f"`num_classes`, got the shape {shape}. A class without one would have those "
            "of another class."
        )
    return tensor
