"""Recurrent layers of version 1 style, time first: PopnnLSTM and PopnnGRU.

    inputs [time, batch, features] --> kernel, biases --> outputs [time, batch, units],
    initial state [batch, units]                          state after the last time step

The variables are `kernel`, [features + units, gates * units], whose first rows are for the
inputs, and `biases`, [gates, units].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.layers import base
from tensorflow.python.ops import rnn_cell_impl

from ipufeed.checks import check_flags
from ipufeed.no_effect import no_effect, without_options
from ipufeed.ops.recurrent.arguments import (
    ACTIVATIONS,
    RECURRENT,
    as_layer_dtype,
    as_state,
    as_units,
    check_others,
)
from ipufeed.ops.recurrent.arguments import activation as checked_activation
from ipufeed.tf_types import DType, Nest, Tensor, TensorLike


class _Popnn(base.Layer):  # type: ignore[misc]
    """The common part of both layers; they have the gates and the step."""

    num_layers = 1
    built: bool
    _gates = 0

    def __init__(
        self,
        num_units: int,
        dtype: DType = tf.float32,
        partials_dtype: DType = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: object = "tanh",
        recurrent_activation: object = "sigmoid",
        return_state: bool = True,
        name: str | None = None,
        options: dict[str, Any] | None = None,
        options_bwd: dict[str, Any] | None = None,
    ) -> None:
        check_flags(return_state=return_state)
        without_options(type(self).__name__, options=options, options_bwd=options_bwd)
        self._plain_dtype = as_layer_dtype(dtype)
        partials = check_others(
            name,
            seed,
            partials_dtype,
            weights_initializer=weights_initializer,
            bias_initializer=bias_initializer,
        )
        super().__init__(dtype=self._plain_dtype, name=name)
        # In eager mode each layer has variables of its own, without `get_variable`.
        self._keras_style = tf.compat.v1.executing_eagerly_outside_functions()
        self.num_units = as_units(num_units)
        kind = type(self).__name__
        if partials != tf.float32:
            no_effect(f"{kind}(partials_dtype=)", "XLA chooses what it sums in")
        self._activation = checked_activation("activation", activation, ACTIVATIONS)
        self._recurrent = checked_activation(
            "recurrent_activation", recurrent_activation, RECURRENT
        )
        self._return_state = return_state
        self._weights_initializer = weights_initializer
        self._bias_initializer = bias_initializer
        self._seed = seed
        self.input_size: int | None = None

    @property
    def canonical_weight_shape(self) -> list[int]:
        """The shape of `kernel`, once the size of the inputs is known."""
        if self.input_size is None:
            raise ValueError("The size of the inputs is not known: call build() first.")
        return [self.input_size + self.num_units, self._gates * self.num_units]

    @property
    def canonical_bias_shape(self) -> list[int]:
        """The shape of `biases`."""
        return [self._gates, self.num_units]

    def build(self, input_shape: Any) -> None:
        """Creates the variables for inputs of a shape; a call does it, too.

        Raises:
            ValueError: The shape is not of rank 3, or its last dimension not known.
        """
        if self.built:
            return
        sizes = tf.TensorShape(input_shape)
        if sizes.rank != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {sizes.rank}")
        self.input_size = sizes.as_list()[-1]
        if self.input_size is None:
            raise ValueError(
                f"The last dimension of the inputs to `{type(self).__name__}` should be "
                "defined. Found `None`."
            )
        v1, dtype = tf.compat.v1, self._plain_dtype
        weights, biases = self._weights_initializer, self._bias_initializer
        if weights is None:
            weights = v1.glorot_uniform_initializer(self._seed)
        if biases is None:
            biases = v1.zeros_initializer()
        self.kernel = self.add_weight(
            "kernel", self.canonical_weight_shape, dtype, weights
        )
        self.biases = self.add_weight(
            "biases", self.canonical_bias_shape, dtype, biases
        )
        self.built = True

    def _zeros(self, inputs: Tensor) -> Tensor:
        return tf.zeros([tf.shape(inputs)[1], self.num_units], self._plain_dtype)

    def _states(
        self,
        inputs: Tensor,
        state: Sequence[Tensor],
        biases: Tensor,
        lengths: Tensor | None = None,
        scores: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Returns the outputs, and the state after the last time step.

        Args:
            inputs: [time, batch, features].
            state: Its parts, each [batch, units].
            biases: The biases of the inputs, flat.
            lengths: [batch], the time steps of each sequence: later outputs are zeros, and
                the state stays that after its last time step. None: all time steps.
            scores: [time, batch], given to `_step`. None: there are none.
        """
        rows = [self.input_size, self.num_units]
        of_inputs, recurrent = tf.split(self.kernel, rows)
        flat = tf.matmul(tf.reshape(inputs, [-1, self.input_size]), of_inputs) + biases
        times, batch = map(tf.compat.dimension_value, inputs.shape[:2])
        count = tf.shape(inputs)[0] if times is None else times
        shape = [count, -1, self._gates * self.num_units]
        projected = tf.TensorArray(
            self._plain_dtype, count, clear_after_read=False
        ).unstack(tf.reshape(flat, shape))
        outputs = tf.TensorArray(self._plain_dtype, count)
        units = batch, self.num_units
        if scores is not None:
            # Not a gather, whose gradient in a version 1 loop grows with each time.
            scores = tf.TensorArray(scores.dtype, count).unstack(scores)

        def body(time: Tensor, outputs: Any, *state: Tensor) -> tuple[Any, ...]:
            more = () if scores is None else (scores.read(time)[:, None],)
            stepped = self._step(projected.read(time), recurrent, *state, *more)
            output = stepped[0]
            if lengths is not None:
                goes_on = (time < lengths)[:, None]
                pairs = zip(stepped, state, strict=True)
                stepped = [tf.where(goes_on, new, old) for new, old in pairs]
                output = tf.where(goes_on, output, tf.zeros_like(output))
            for part in stepped:
                part.set_shape(units)
            return time + 1, outputs.write(time, output), *stepped

        _, outputs, *state = tf.while_loop(
            lambda time, *_: time < count,
            body,
            (0, outputs, *(tf.ensure_shape(part, units) for part in state)),
            maximum_iterations=times,
        )
        stacked = outputs.stack()
        stacked.set_shape([times, *units])
        return stacked, list(state)

    def _step(self, x: Tensor, recurrent: Tensor, *state: Tensor) -> list[Tensor]:
        """Returns the state after a time step; its first part is the output.

        Args:
            x: The inputs' part of the gates, with biases: [batch, gates * units].
            recurrent: The rows of the kernel for the state: [units, gates * units].
            *state: Its parts, [batch, units] each; then the score, [batch, 1], if there are
                scores.
        """
        raise NotImplementedError


class PopnnLSTM(_Popnn):
    """A layer of long short-term memory; gates: forget, input, candidate, output.

    Args:
        num_units: Elements of an output.
        dtype: float32 or float16.
        partials_dtype: No effect, with a warning if it is not float32.
        seed: The seed of the kernel's default initializer.
        weights_initializer: The kernel's initializer. Default: Glorot's uniform one.
        bias_initializer: The biases' initializer. Default: zeros.
        activation: tanh, relu, softmax, sigmoid or hard_sigmoid, or TensorFlow's function.
        recurrent_activation: The same without relu.
        return_state: Whether calls return the state, too.
        name: The layer's name, and that of its variable scope.
        options: No effect, with a warning.
        options_bwd: No effect, with a warning.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The dtype or an activation is not one of these, or `num_units` is out of
            range.
    """

    _gates = 4

    def state_shape(self, batch_size: int) -> Any:
        """Returns the shapes of the state, as an LSTMStateTuple."""
        return rnn_cell_impl.LSTMStateTuple(*[[batch_size, self.num_units]] * 2)

    def call(
        self, inputs: TensorLike, initial_state: Any = None, training: bool = True
    ) -> Nest:
        """Returns the outputs, and with return_state the state after the last time step.

        Args:
            inputs: [time, batch, features].
            initial_state: An LSTMStateTuple of `c` and `h`, each [batch, units]. Default:
                zeros.
            training: Either value gives the same results.

        Returns:
            [time, batch, units], and an LSTMStateTuple.

        Raises:
            TypeError: A part of the state is not a tensor.
            ValueError: The state is not an LSTMStateTuple, or has another shape.
        """
        check_flags(training=training)
        return self._sequences(inputs, initial_state)

    def _sequences(
        self, inputs: TensorLike, initial_state: Any, lengths: Tensor | None = None
    ) -> Nest:
        inputs = tf.convert_to_tensor(inputs, self._plain_dtype)
        if initial_state is None:
            initial_state = rnn_cell_impl.LSTMStateTuple(*[self._zeros(inputs)] * 2)
        if getattr(initial_state, "_fields", ()) != ("c", "h"):  # also that of tf_keras
            raise ValueError(
                f"Invalid initial_state type: `{type(initial_state).__name__}`, expecting "
                "`LSTMStateTuple`."
            )
        start = [
            as_state(f"initial_state.{name}", part, inputs, self.num_units)
            for name, part in (("h", initial_state.h), ("c", initial_state.c))
        ]
        biases = tf.reshape(self.biases, [-1])
        outputs, (h, c) = self._states(inputs, start, biases, lengths)
        state = rnn_cell_impl.LSTMStateTuple(c, h)
        return (outputs, state) if self._return_state else outputs

    def _step(self, x: Tensor, recurrent: Tensor, *state: Tensor) -> list[Tensor]:
        h, c = state
        gates = x + tf.matmul(h, recurrent)
        f, i, g, o = tf.split(gates, 4, axis=1)  # forget, input, candidate, output
        c = self._recurrent(f) * c + self._recurrent(i) * self._activation(g)
        return [self._recurrent(o) * self._activation(c), c]


class PopnnGRU(_Popnn):
    """A layer of gated recurrent units; gates: reset, update, candidate.

    Args:
        num_units: Elements of an output.
        dtype: float32 or float16.
        partials_dtype: No effect, with a warning if it is not float32.
        seed: The seed of the kernel's default initializer.
        weights_initializer: The kernel's initializer. Default: Glorot's uniform one.
        bias_initializer: The biases' initializer. Default: zeros.
        activation: That of the candidate: see PopnnLSTM.
        recurrent_activation: That of the two other gates: see PopnnLSTM.
        return_state: Whether calls return the state, too.
        name: The layer's name.
        reset_after: Whether the reset gate acts on the state's product with the kernel,
            which then has biases of its own: `biases` is [gates, 2, units], of inputs and
            state. Else it acts on the state.
        options: No effect, with a warning.
        options_bwd: No effect, with a warning.

    Raises:
        TypeError: An argument is of another type.
        ValueError: The dtype or an activation is not one of these, or `num_units` is out of
            range.
    """

    _gates = 3

    def __init__(
        self,
        num_units: int,
        dtype: DType = tf.float32,
        partials_dtype: DType = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: object = "tanh",
        recurrent_activation: object = "sigmoid",
        return_state: bool = True,
        name: str | None = None,
        reset_after: bool = False,
        options: dict[str, Any] | None = None,
        options_bwd: dict[str, Any] | None = None,
    ) -> None:
        check_flags(reset_after=reset_after)
        super().__init__(
            num_units,
            dtype,
            partials_dtype,
            seed,
            weights_initializer,
            bias_initializer,
            activation,
            recurrent_activation,
            return_state,
            name,
            options,
            options_bwd,
        )
        self._reset_after = reset_after

    @property
    def canonical_bias_shape(self) -> list[int]:
        """The shape of `biases`."""
        return [3, 2, self.num_units] if self._reset_after else [3, self.num_units]

    def state_shape(self, batch_size: int) -> list[int]:
        """Returns the shape of the state."""
        return [batch_size, self.num_units]

    def call(
        self,
        inputs: TensorLike,
        initial_state: TensorLike | None = None,
        training: bool = True,
    ) -> Nest:
        """Returns the outputs, and with return_state the state after the last time step.

        Args:
            inputs: [time, batch, features].
            initial_state: [batch, units]. Default: zeros.
            training: Either value gives the same results.

        Returns:
            [time, batch, units], and [batch, units].

        Raises:
            TypeError: The state is not a tensor.
            ValueError: It has another shape.
        """
        check_flags(training=training)
        return self._sequences(inputs, initial_state)

    def _sequences(
        self,
        inputs: TensorLike,
        initial_state: TensorLike | None,
        lengths: Tensor | None = None,
        scores: Tensor | None = None,
    ) -> Nest:
        inputs = tf.convert_to_tensor(inputs, self._plain_dtype)
        if initial_state is None:
            initial_state = self._zeros(inputs)
        start = as_state("initial_state", initial_state, inputs, self.num_units)
        biases = self.biases[:, 0] if self._reset_after else self.biases
        outputs, (h,) = self._states(
            inputs, [start], tf.reshape(biases, [-1]), lengths, scores
        )
        return (outputs, h) if self._return_state else outputs

    def _step(self, x: Tensor, recurrent: Tensor, *state: Tensor) -> list[Tensor]:
        h, *score = state
        of_reset, of_update, of_candidate = tf.split(x, 3, axis=1)
        weights = tf.split(recurrent, 3, axis=1)
        biases = [0, 0, 0]
        if self._reset_after:
            biases = tf.unstack(self.biases[:, 1])
        reset = self._recurrent(of_reset + tf.matmul(h, weights[0]) + biases[0])
        update = self._recurrent(of_update + tf.matmul(h, weights[1]) + biases[1])
        if self._reset_after:
            remembered = reset * (tf.matmul(h, weights[2]) + biases[2])
        else:
            remembered = tf.matmul(reset * h, weights[2])
        candidate = self._activation(of_candidate + remembered)
        if score:
            update *= 1 - score[0]
        return [update * h + (1 - update) * candidate]
