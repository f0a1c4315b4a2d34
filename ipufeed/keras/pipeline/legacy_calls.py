"""Takes models of tf_keras apart into layer calls, and executes these."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tf_keras as keras
from tf_keras.src.engine import base_layer_utils
from tf_keras.src.engine.functional import Functional

from ipufeed.keras.pipeline.calls import Call, CallFinder, Graph, Node
from ipufeed.tf_types import KerasLayer, KerasModel, Nest, Tensor


def is_taken_apart(model: KerasModel) -> bool:
    """Whether the calls of a model are known without calling it."""
    return isinstance(model, (keras.Sequential, Functional))


def graph_of(model: KerasModel, x: Nest) -> Graph:
    """Takes a model apart into layer calls.

    Args:
        model: A built model.
        x: Its inputs, as tensors; for a subclass, whose `call` is traced.

    Raises:
        ValueError: `call` fails with symbolic tensors.
    """
    whole = model if is_taken_apart(model) else _followed(model, x)
    chain = isinstance(whole, keras.Sequential)
    calls, inputs, outputs = _CallFinder().calls(whole)

    def pack(values: list[Tensor]) -> Nest:
        if chain:
            return values[0]
        return tf.nest.pack_sequence_as(whole._nested_outputs, values)

    def run(call: Call, values: dict[int, Tensor], training: bool) -> None:
        _run(model, call, values, training)

    return Graph(
        calls, inputs, outputs, pack, lambda mine, _: _running(mine), run, _losses
    )


def conformed(model: KerasModel, x: Nest) -> list[Tensor]:
    """Returns the flat inputs of a model, as its `call` converts them."""
    if not is_taken_apart(model) or not model.inputs:
        return list(tf.nest.flatten(x))
    flat = model._flatten_to_reference_inputs(x)
    return [
        model._conform_to_reference_input(value, ref_input=reference)
        for value, reference in zip(flat, model.inputs, strict=True)
    ]


def _followed(model: KerasModel, x: Nest) -> KerasModel:
    """Traces the calls in `call` of a subclass, as a functional model."""
    inputs = tf.nest.map_structure(
        lambda each: keras.Input(
            batch_size=each.shape[0], shape=each.shape[1:], dtype=each.dtype
        ),
        x,
    )
    training = {"training": None} if model._expects_training_arg else {}
    try:
        return keras.Model(inputs, model.call(inputs, **training))
    except Exception as error:
        raise ValueError(
            f"The layers that `call` of the model {model.name} calls cannot be found, "
            "which a pipeline needs: it must consist of layers and of TensorFlow's "
            "operations, and take one argument without a default. "
            f"{type(error).__name__}: {error}"
        ) from error


class _CallFinder(CallFinder):
    sequential, functional = keras.Sequential, Functional

    def nodes(self, model: KerasModel) -> Iterator[Node]:
        for depth in sorted(model._nodes_by_depth, reverse=True):
            for node in model._nodes_by_depth[depth]:
                if not node.is_input:
                    yield Node(
                        node,
                        node.layer,
                        node.keras_inputs,
                        tf.nest.flatten(node.outputs),
                        node,
                        training=node.call_kwargs.get("training"),
                    )


@contextlib.contextmanager
def _running(mine: list[Call]) -> Iterator[None]:
    """Clears the losses of the stage's layers, so that only its calls add some."""
    for call in mine:
        call.operation._clear_losses()
    yield


def _run(
    model: KerasModel, call: Call, values: dict[int, Tensor], training: bool
) -> None:
    """See calls.Graph.

    The call is one inside the call of a model: a layer that is called alone clears the
    losses that it has added before, and its inner layers do not get `training`.
    """
    node = call.arguments
    if node is None:
        arguments, keywords = (values[call.inputs[0]],), {}
    else:
        tensors: dict[str, list[Tensor]] = {}
        for each in node.keras_inputs:
            value = values[call.slots[id(each)]]
            tensors.setdefault(str(id(each)), []).append(value)
        arguments, keywords = node.map_arguments(tensors)
    around = training if call.training is None else call.training
    with base_layer_utils.call_context().enter(
        layer=model,
        inputs=None,
        build_graph=not tf.executing_eagerly(),
        call_context_args={"training": around},
    ):
        results = tf.nest.flatten(call.operation(*arguments, **keywords))
    values |= dict(zip(call.outputs, results, strict=True))


def _losses(layer: KerasLayer, with_regularizers: bool) -> list[Tensor]:
    """See calls.Graph."""
    if with_regularizers:
        return list(layer.losses)
    return [
        each
        for inner in layer._flatten_layers()
        for each in inner._eager_losses or inner._losses
    ]
