"""Recurrent layers for sequences of several lengths, with attention or without.

    inputs [time, batch, features] --> outputs [time, batch, units], zeros after the end
    seq_len [batch]                    state after the last time step of each

Variables and arguments are those of PopnnLSTM and PopnnGRU. The attention is that of the
deep interest evolution network (Zhou et al., 2019): it weakens the update gate.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipufeed.checks import as_int32, check_flags
from ipufeed.ops.recurrent.rnn_ops import PopnnGRU, PopnnLSTM
from ipufeed.tf_types import Nest, Tensor, TensorLike


class PopnnDynamicLSTM(PopnnLSTM):
    """A PopnnLSTM for sequences of several lengths.

    Args:
        *args: Those of PopnnLSTM.
        preserve_final_state: No effect: the final state is always that after the last
            time step of each sequence.
        **kwargs: Those of PopnnLSTM.

    Raises:
        TypeError, ValueError: As those of PopnnLSTM.
    """

    def __init__(
        self, *args: Any, preserve_final_state: bool = False, **kwargs: Any
    ) -> None:
        check_flags(preserve_final_state=preserve_final_state)
        super().__init__(*args, **kwargs)

    def call(  # type: ignore[override]
        self,
        inputs: TensorLike,
        seq_len: TensorLike,
        initial_state: Any = None,
        training: bool = True,
    ) -> Nest:
        """Returns the outputs, and the final state with return_state.

        Args:
            inputs: [time, batch, features].
            seq_len: [batch], integers: the time steps of each sequence.
            initial_state: An LSTMStateTuple of `c` and `h`, each [batch, units]. Default:
                zeros.
            training: Either value gives the same results.

        Returns:
            [time, batch, units], zeros after the end of a sequence, and an
            LSTMStateTuple.

        Raises:
            ValueError: The state is not an LSTMStateTuple, or `seq_len` has another shape.
        """
        check_flags(training=training)
        inputs = tf.convert_to_tensor(inputs, self._plain_dtype)
        return self._sequences(inputs, initial_state, _lengths(seq_len, inputs))


class PopnnDynamicGRU(PopnnGRU):
    """A PopnnGRU for sequences of several lengths; its arguments are the same."""

    def call(  # type: ignore[override]
        self,
        inputs: TensorLike,
        seq_len: TensorLike,
        initial_state: TensorLike | None = None,
        training: bool = True,
        time_major: bool = True,
    ) -> Nest:
        """Returns the outputs, and the final state with return_state.

        Args:
            inputs: [time, batch, features].
            seq_len: [batch], integers: the time steps of each sequence.
            initial_state: [batch, units]. Default: zeros.
            training: Either value gives the same results.
            time_major: False: inputs and outputs are [batch, time, ...].

        Returns:
            [time, batch, units], zeros after the end of a sequence, and [batch, units].

        Raises:
            ValueError: `seq_len` has another shape.
        """
        check_flags(training=training, time_major=time_major)
        return self._in_order(inputs, seq_len, None, initial_state, time_major)

    def _in_order(
        self,
        inputs: TensorLike,
        seq_len: TensorLike,
        scores: Tensor | None,
        initial_state: TensorLike | None,
        time_major: bool,
    ) -> Nest:
        inputs = tf.convert_to_tensor(inputs, self._plain_dtype)
        if not time_major:
            inputs = tf.transpose(inputs, [1, 0, 2])
        found = self._sequences(
            inputs, initial_state, _lengths(seq_len, inputs), scores
        )
        outputs, *state = found if self._return_state else (found,)
        if not time_major:
            outputs = tf.transpose(outputs, [1, 0, 2])
        return (outputs, *state) if self._return_state else outputs


class PopnnAUGRU(PopnnDynamicGRU):
    """A PopnnDynamicGRU with attention: its update gate is multiplied by 1 - score."""

    def call(  # type: ignore[override]
        self,
        inputs: TensorLike,
        seq_len: TensorLike,
        attention_score: TensorLike,
        initial_state: TensorLike | None = None,
        training: bool = True,
        time_major: bool = True,
    ) -> Nest:
        """Returns the outputs, and the final state with return_state.

        Args:
            inputs: [time, batch, features].
            seq_len: [batch], integers: the time steps of each sequence.
            attention_score: [batch, time]: the score of each time of a sequence.
            initial_state: [batch, units]. Default: zeros.
            training: Either value gives the same results.
            time_major: False: inputs and outputs are [batch, time, ...].

        Returns:
            [time, batch, units], zeros after the end of a sequence, and [batch, units].

        Raises:
            ValueError: `seq_len` or `attention_score` has another shape.
        """
        check_flags(training=training, time_major=time_major)
        inputs = tf.convert_to_tensor(inputs, self._plain_dtype)
        scores = tf.convert_to_tensor(attention_score, self._plain_dtype)
        first, second, *_ = inputs.shape.as_list()
        wanted = [second, first] if time_major else [first, second]
        if not scores.shape.is_compatible_with(wanted):
            raise ValueError(
                f"`attention_score` must be [batch, time], {wanted} for these inputs, got "
                f"{scores.shape}."
            )
        scores = tf.transpose(scores)
        return self._in_order(inputs, seq_len, scores, initial_state, time_major)


def _lengths(seq_len: TensorLike, inputs: Tensor) -> Tensor:
    """Returns the lengths of inputs [time, batch, features] as int32.

    Raises:
        TypeError: They are not integers.
        ValueError: They have another shape.
    """
    if seq_len is None:
        raise TypeError("`seq_len` must be integers [batch], got None.")
    lengths = as_int32("seq_len", seq_len)
    batch = inputs.shape.as_list()[1] if inputs.shape.rank == 3 else None
    if not lengths.shape.is_compatible_with([batch]):
        size = "" if batch is None else f", [{batch}] for these inputs"
        raise ValueError(f"`seq_len` must be [batch]{size}, got {lengths.shape}.")
    return lengths
