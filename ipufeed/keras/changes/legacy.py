"""Patches of tf_keras for an IPUStrategy; without one tf_keras is unchanged."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import tensorflow as tf
import tf_keras as keras
from tf_keras.src.engine import data_adapter
from tf_keras.src.engine.base_preprocessing_layer import PreprocessingLayer
from tf_keras.src.layers.preprocessing import preprocessing_utils
from tf_keras.src.mixed_precision import loss_scale_optimizer
from tf_keras.src.optimizers import utils as optimizer_utils
from tf_keras.src.utils import losses_utils

from ipufeed.device.program.strategy import IPUStrategyV1, current_strategy
from ipufeed.device.random.ops import on_ipu
from ipufeed.device.system.system import require_usable
from ipufeed.keras.changes.adapting import adapt_on_host
from ipufeed.keras.changes.functions import MAKERS
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Dataset, GradAndVar, KerasLayer, KerasModel, Tensor


def install() -> None:
    """Patches tf_keras for programs of an IPU."""
    _allow_float16()
    _allow_losses()
    _allow_states()
    _allow_backups()
    _sum_over_replicas()
    _encode_without_bincount()
    _give_each_replica_the_batch()
    replace(PreprocessingLayer, "adapt", adapt_on_host(PreprocessingLayer.adapt))


def _allow_float16() -> None:
    """Allows float16 policies and loss scales in the scope of an IPUStrategy.

    tf_keras allows them for a list of strategies.
    """
    stock = loss_scale_optimizer.strategy_supports_loss_scaling

    def supports() -> bool:
        return current_strategy() is not None or stock()

    replace(loss_scale_optimizer, "strategy_supports_loss_scaling", supports)


def _sum_over_replicas() -> None:
    """Makes tf_keras's optimizers sum the gradients of the replicas, as Keras 3's do.

    They name the variables as destinations, as TensorFlow 1 optimizers do, whose gradients
    a strategy does not reduce.
    """
    stock = optimizer_utils.all_reduce_sum_gradients

    def sums(grads_and_vars: Iterable[GradAndVar]) -> object:
        strategy = current_strategy()
        if strategy is None:
            return stock(grads_and_vars)
        reduce, add = strategy.extended._reduce_to, tf.distribute.ReduceOp.SUM
        return [
            (None if each is None else reduce(add, each, each, None), weight)
            for each, weight in grads_and_vars
        ]

    replace(optimizer_utils, "all_reduce_sum_gradients", sums)


def take_plain_recurrences(model: KerasModel) -> None:
    """Makes LSTM and GRU loops of the program instead of functions that it calls.

    XLA treats all inputs of such a function as compile-time constants, the iterator too, so
    that each epoch would compile another program.
    """
    for layer in model._flatten_layers():
        if getattr(layer, "_could_use_gpu_kernel", False):
            layer._could_use_gpu_kernel = False


def _allow_losses() -> None:
    """Allows a loss with the default reduction in a custom training step.

    tf_keras refuses it, since the mean over a replica's batch is not that over all. On an
    IPU the gradients of the replicas are summed, as those of `fit` are.
    """
    stock = keras.losses.Loss._get_reduction
    kinds = losses_utils.ReductionV2

    def reduction(loss: keras.losses.Loss) -> object:
        if current_strategy() is None:
            return stock(loss)
        auto = loss.reduction == kinds.AUTO
        return kinds.SUM_OVER_BATCH_SIZE if auto else loss.reduction

    replace(keras.losses.Loss, "_get_reduction", reduction)


def _allow_states() -> None:
    """Allows stateful recurrent layers."""
    stock = keras.layers.RNN.__init__

    @functools.wraps(stock)
    def make(layer: KerasLayer, *arguments: object, **keywords: object) -> None:
        keeps = keywords.get("stateful") and current_strategy() is not None
        if keeps:
            keywords["stateful"] = False
        stock(layer, *arguments, **keywords)
        if keeps:
            layer.stateful = True

    replace(keras.layers.RNN, "__init__", make)


def _allow_backups() -> None:
    """Allows the BackupAndRestore callback, which has a list of strategies."""
    stock = keras.callbacks.BackupAndRestore.__init__

    @functools.wraps(stock)
    def make(
        callback: keras.callbacks.Callback, *arguments: object, **keywords: object
    ) -> None:
        stock(callback, *arguments, **keywords)
        callback._supported_strategies += (IPUStrategyV1,)

    replace(keras.callbacks.BackupAndRestore, "__init__", make)


def _encode_without_bincount() -> None:
    """Makes CategoryEncoding, Discretization and similar layers sum one-hot vectors.

    tf_keras counts with tf.math.bincount, whose result has no shape that XLA knows.
    """
    stock = preprocessing_utils.dense_bincount

    def encode(
        inputs: Tensor,
        depth: int,
        binary_output: bool,
        dtype: object,
        count_weights: Tensor | None = None,
    ) -> Tensor:
        if tf.executing_eagerly() or not on_ipu():
            return stock(inputs, depth, binary_output, dtype, count_weights)
        ones = tf.one_hot(tf.cast(inputs, tf.int32), depth, dtype=dtype)
        if binary_output:
            return tf.reduce_max(ones, axis=-2)
        if count_weights is not None:
            ones *= tf.cast(count_weights, ones.dtype)[..., tf.newaxis]
        return tf.reduce_sum(ones, axis=-2)

    replace(preprocessing_utils, "dense_bincount", encode)


class _Repeating:
    """A strategy for tf_keras's iterator of one batch, which all replicas get.

    Args:
        strategy: Whose datasets they are.
        replicas: Those of its device's programs.
    """

    def __init__(self, strategy: tf.distribute.Strategy, replicas: int) -> None:
        self._strategy = strategy
        self._replicas = replicas

    def experimental_distribute_dataset(self, dataset: Dataset) -> Dataset:
        """Returns the dataset of one batch, with a copy for each replica."""
        repeated = dataset.repeat(self._replicas)
        distributed: Dataset = self._strategy.experimental_distribute_dataset(repeated)
        return distributed


def _give_each_replica_the_batch() -> None:
    """Makes the replicas of `train_on_batch` and similar calls compute the same batch.

    Each takes an element of its own from tf_keras's iterator, which has one. Those of
    Keras 3 get the batch as an argument.
    """
    stock = data_adapter.single_batch_iterator

    @functools.wraps(stock)
    def iterator(
        strategy: tf.distribute.Strategy, *arguments: object, **keywords: object
    ) -> object:
        here = current_strategy()
        if here is not None:
            strategy = _Repeating(
                strategy, require_usable(here.device_ordinal).num_ipus
            )
        return stock(strategy, *arguments, **keywords)

    replace(data_adapter, "single_batch_iterator", iterator)


def make_functions_of_one_step(model: KerasModel) -> None:
    """Makes Keras's functions that are not there, for one step each.

    They would take `steps_per_execution` batches from the iterator, in which
    `train_on_batch` has one. The programs of an IPU do not call them.

    Args:
        model: Made in an IPU's scope. What its class makes in their place is left to it.
    """
    steps = model._steps_per_execution
    # Not setattr, which would add the variable to the weights.
    model.__dict__["_steps_per_execution"] = None
    try:
        for mode, maker in MAKERS.items():
            own = getattr(type(model), maker) is getattr(keras.Model, maker)
            if own and (mode == "predict" or model._is_compiled):
                getattr(model, maker)()
    finally:
        model.__dict__["_steps_per_execution"] = steps
