"""Connectionist temporal classification: losses and beam search, for nn_ops."""

from __future__ import annotations

import contextlib

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from ipufeed.checks import (
    as_count,
    as_floats,
    as_int,
    as_int32,
    check_name,
    dtype_or_none,
)
from ipufeed.device.program.outside_compilation import (
    current_program,
    outside_compilation_scope,
)
from ipufeed.tf_types import DType, Tensor, TensorLike

MOST_BEAMS = 2**31 - 1  # an int32 in the op's attributes


def ctc_loss_v2(
    labels: TensorLike,
    logits: TensorLike,
    label_length: TensorLike,
    logit_length: TensorLike,
    blank_index: int,
    out_dtype: DType | None = None,
    name: str | None = None,
) -> Tensor:
    """Computes -log p(labels) for each sequence, from logits.

    Args:
        labels: int32 [batch, most labels].
        logits: [time, batch, classes], float16 or float32.
        label_length: int32 [batch].
        logit_length: int32 [batch].
        blank_index: The class of blanks, from 0; negative: counted from the last, -1.
        out_dtype: The result's. Default: the logits'.
        name: The operations' name.

    Returns:
        [batch]. It is computed in float32.

    Raises:
        TypeError: `out_dtype` is not a dtype of floats, or the blank index not an int.
        ValueError: `out_dtype` is float16 for float32 logits, or the blank index is not
            a class.
        tf.errors.InvalidArgumentError: Unequal batch sizes, or lengths that are not of
            the shape [batch].
    """
    return _loss(
        labels,
        logits,
        label_length,
        logit_length,
        blank_index,
        out_dtype,
        name or "ctc_loss",
        "logits",
    )


def ctc_loss_with_log_probs(
    labels: TensorLike,
    data: TensorLike,
    label_length: TensorLike,
    data_length: TensorLike,
    blank_index: int,
    out_dtype: DType | None = None,
    name: str | None = None,
) -> Tensor:
    """Computes -log p(labels) for each sequence, from log probabilities.

    The gradient includes the log-softmax. Args, Returns, Raises: See ctc_loss_v2.
    """
    return _loss(
        labels,
        data,
        label_length,
        data_length,
        blank_index,
        out_dtype,
        name or "ctc_loss_with_log_probs",
        "data",
    )


def ctc_beam_search_decoder(
    logits: TensorLike,
    logits_lengths: TensorLike,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the most probable label sequences.

    TensorFlow's decoder runs on the host, in an outside_compilation_scope.

    Args:
        logits: [time, batch, classes].
        logits_lengths: int32 [batch].
        beam_width: The number of beams.
        top_paths: The number of returned sequences, at most beam_width.
        blank_index: The class of blanks; negative: counted from the last, -1.
        name: The operations' name.

    Returns:
        Log probabilities [batch, top_paths], lengths int32 [batch, top_paths], and labels
        int32 [batch, top_paths, time], where the values after a sequence's length are
        undefined.

    Raises:
        TypeError: A width, number or index is not an int.
        ValueError: A blank index that is not a class, more paths than `beam_width`, or an
            unknown number of classes.
    """
    return _decode(
        logits,
        logits_lengths,
        beam_width,
        top_paths,
        blank_index,
        name or "ctc_beam_search_decoder",
        ("logits", "logits_lengths"),
    )


def ctc_beam_search_decoder_with_log_probs(
    log_probs: TensorLike,
    input_lengths: TensorLike,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the most probable label sequences, from log probabilities.

    Args, Returns, Raises: See ctc_beam_search_decoder.
    """
    return _decode(
        log_probs,
        input_lengths,
        beam_width,
        top_paths,
        blank_index,
        name or "ctc_beam_search_decoder_with_log_probs",
        ("log_probs", "input_lengths"),
    )


def _decode(
    logits: TensorLike,
    lengths: TensorLike,
    beam_width: int,
    top_paths: int,
    blank_index: int,
    name: str,
    called: tuple[str, str],
) -> tuple[Tensor, Tensor, Tensor]:
    """Decodes; `called` are the names of the first two arguments, for errors."""
    check_name(name)
    with tf.name_scope(name):
        logits = _as_logits(called[0], logits)
        lengths = as_int32(called[1], lengths)
        _check_batch({called[0]: logits.shape[1:2], called[1]: lengths.shape})
        shape = logits.shape.with_rank(3).as_list()
        classes = shape[-1]
        if classes is None:
            raise ValueError(
                f"The number of classes, the last dimension of the {called[0]}, must be "
                f"known for the beam search, got the shape {logits.shape}: use "
                "set_shape()."
            )
        if 0 in shape:
            raise ValueError(
                f"`{called[0]}` must not be empty: the beam search needs at least one "
                f"step of time, one example and one class, got the shape {logits.shape}."
            )
        blank_index = _as_blank(blank_index, classes)
        beam_width = as_count("beam_width", beam_width)
        top_paths = as_int("top_paths", top_paths)
        if beam_width > MOST_BEAMS:
            raise ValueError(
                f"beam_width must be at most {MOST_BEAMS}, got {beam_width}."
            )
        if not 1 <= top_paths <= beam_width:
            raise ValueError(
                f"top_paths must be in 1 to beam_width ({beam_width}), got {top_paths}."
            )
        blank = blank_index % classes
        time = tf.shape(logits)[0] if shape[0] is None else shape[0]
        if blank != classes - 1:  # TensorFlow's decoder requires it to be the last
            order = [each for each in range(classes) if each != blank]
            logits = tf.gather(logits, [*order, blank], axis=-1)
        with _on_the_host():
            paths, scores = tf.nn.ctc_beam_search_decoder(
                tf.cast(logits, tf.float32),
                lengths,
                beam_width,
                top_paths,
            )
            batch = tf.shape(logits)[1]
            labels, found = zip(
                *(_dense(path, batch, time) for path in paths), strict=True
            )
            labels = tf.stack(labels, axis=1)
            lengths = tf.stack(found, axis=1)
            labels += tf.cast(labels >= blank, tf.int32)
        labels.set_shape([shape[1], top_paths, shape[0]])
        lengths.set_shape([shape[1], top_paths])
        scores.set_shape([shape[1], top_paths])
        return tf.cast(scores, logits.dtype), lengths, labels


def _on_the_host() -> contextlib.AbstractContextManager[None]:
    """Returns the scope of ops that cannot be compiled; none outside of programs."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    graph = tf.compat.v1.get_default_graph()
    in_program = current_program() is not None
    if in_program or control_flow_util.GraphOrParentsInXlaContext(graph):
        return outside_compilation_scope()
    return contextlib.nullcontext()


def _dense(path: Tensor, batch: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
    """Converts a sparse path per example to labels [batch, time] and lengths [batch]."""
    lengths = tf.math.bincount(
        tf.cast(path.indices[:, 0], tf.int32), minlength=batch, maxlength=batch
    )
    labels = tf.scatter_nd(
        tf.cast(path.indices, tf.int32),
        tf.cast(path.values, tf.int32),
        tf.stack([batch, time]),
    )
    return labels, lengths


def _loss(
    labels: Tensor,
    logits: Tensor,
    label_length: Tensor,
    logit_length: Tensor,
    blank_index: int,
    out_dtype: DType | None,
    name: str,
    called: str,
) -> Tensor:
    check_name(name)
    with tf.name_scope(name):
        labels = as_int32("labels", labels)
        # Of logits it is logit_length, of data data_length.
        length_called = f"{called.removesuffix('s')}_length"
        lengths = [
            as_int32("label_length", label_length),
            as_int32(length_called, logit_length),
        ]
        logits = _as_logits(called, logits)
        if labels.shape.rank not in (None, 2):
            raise ValueError(
                "`labels` must be [batch, most labels], padded to one length, with "
                f"`label_length`, got the shape {labels.shape}."
            )
        dtype = logits.dtype if out_dtype is None else dtype_or_none(out_dtype)
        if dtype is None or not dtype.is_floating:
            raise TypeError(
                "`out_dtype` must be tf.float16, tf.float32 or None for that of "
                f"`{called}`, got {type(out_dtype).__name__} {out_dtype!r}, with "
                f"`{called}` of {logits.dtype.name}."
            )
        if dtype == tf.float16 and logits.dtype == tf.float32:
            raise ValueError(
                f"out_dtype cannot be float16 when dtype of {called} is float32."
            )
        _check_batch(
            {
                "labels": labels.shape[:1],
                called: logits.shape[1:2],
                "label_length": lengths[0].shape,
                length_called: lengths[1].shape,
            }
        )
        blank_index = _as_blank(
            blank_index, tf.compat.dimension_value(logits.shape[-1])
        )
        loss = tf.nn.ctc_loss(
            labels,
            tf.cast(logits, tf.float32),
            *lengths,
            blank_index=blank_index,
        )
        return tf.cast(loss, dtype)


def _as_blank(blank_index: int, classes: int | None) -> int:
    blank_index = as_int("blank_index", blank_index)
    # An index beyond the classes is never found, and the loss is a plausible number.
    if classes is not None and not -classes <= blank_index < classes:
        raise ValueError(
            f"blank_index must be in {-classes} to {classes - 1} for {classes} classes, "
            f"got {blank_index}."
        )
    return blank_index


def _as_logits(called: str, logits: TensorLike) -> Tensor:
    """Converts to floats of the shape [time, batch, classes]."""
    logits = as_floats(called, logits)
    if logits.shape.rank not in (None, 3):
        one = ". Give a single sequence a batch of 1: tf.expand_dims(..., axis=1)"
        raise ValueError(
            f"`{called}` must be [time, batch, classes], got the shape {logits.shape}"
            f"{one * (logits.shape.rank == 2)}."
        )
    return logits


def _check_batch(shapes: dict[str, tf.TensorShape]) -> None:
    """Raises InvalidArgumentError unless all shapes are [batch], of the same batch."""
    batch = tf.TensorShape([None])
    for which, shape in shapes.items():
        if not shape.is_compatible_with(batch):
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"The batch size must be the same in {', '.join(shapes)}, and lengths must "
                f"be of the shape [batch]: {which} has {shape}, the batch before it "
                f"{batch}.",
            )
        batch = batch.merge_with(shape)
