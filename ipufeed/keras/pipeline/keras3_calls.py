"""Takes models of Keras 3 apart into layer calls, and executes these."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras
from keras.src.backend.common import global_state
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.layers.layer import CallContext
from keras.src.models.functional import Functional

from ipufeed.keras.pipeline.calls import Call, CallFinder, Graph, Node
from ipufeed.tf_types import KerasLayer, KerasModel, Nest, Tensor


def graph_of(model: KerasModel, example: Nest) -> Graph:
    """Takes a model apart into layer calls.

    Args:
        model: A built model.
        example: Its inputs, as tensors; for a subclass, whose `call` is traced.

    Raises:
        ValueError: `call` fails with symbolic tensors.
    """
    whole = model
    if not isinstance(model, (keras.Sequential, Functional)):
        whole = _followed(model, example)
    calls, inputs, outputs = _CallFinder().calls(whole)
    if isinstance(whole, keras.Sequential):
        return _graph(model, calls, inputs, outputs, None)
    structure = whole._outputs_struct
    alone = isinstance(structure, KerasTensor) or (
        isinstance(structure, (list, tuple)) and len(structure) == 1
    )
    return _graph(model, calls, inputs, outputs, None if alone else structure)


def _graph(
    model: KerasModel,
    calls: list[Call],
    inputs: list[int],
    outputs: list[int],
    structure: Nest,
) -> Graph:
    def pack(values: list[Tensor]) -> Nest:
        if structure is None:
            return values[0]
        return keras.tree.pack_sequence_as(structure, values)

    def running(
        mine: list[Call], training: bool
    ) -> contextlib.AbstractContextManager[None]:
        return _running(model, mine, training)

    return Graph(calls, inputs, outputs, pack, running, run, losses)


def _followed(model: KerasModel, example: Nest) -> KerasModel:
    """Traces the calls in `call` of a subclass, as a keras.Function."""
    inputs = keras.tree.map_structure(
        lambda each: keras.KerasTensor(
            each.shape, keras.backend.standardize_dtype(each.dtype)
        ),
        example,
    )
    try:
        return keras.Function(inputs, model.call(inputs))
    except Exception as error:
        raise ValueError(
            f"The layers that `call` of the model {model.name} calls cannot be found, "
            "which a pipeline needs: it must consist of layers and of keras.ops, and take "
            f"one argument without a default. {type(error).__name__}: {error}"
        ) from error


class _CallFinder(CallFinder):
    sequential, functional = keras.Sequential, Functional

    def nodes(self, model: KerasModel) -> Iterator[Node]:
        for depth in sorted(model._nodes_by_depth, reverse=True):
            for node in model._nodes_by_depth[depth]:
                if node.operation and not node.is_input:
                    yield Node(
                        node,
                        node.operation,
                        node.input_tensors,
                        node.outputs,
                        node.arguments,
                        isinstance(node.operation, keras.layers.Layer),
                    )


@contextlib.contextmanager
def _running(model: KerasModel, mine: list[Call], training: bool) -> Iterator[None]:
    """Makes the calls of a stage calls inside the call of a model.

    A layer that is called alone clears the losses that it has added before.
    """
    for call in mine:
        if call.is_layer:
            call.operation._clear_losses()
    before = global_state.get_global_attribute("current_call_ctx")
    context = CallContext(entry_layer=model)
    context.training = training
    global_state.set_global_attribute("current_call_ctx", context)
    try:
        yield
    finally:
        global_state.set_global_attribute("current_call_ctx", before)


def run(call: Call, values: dict[int, Tensor], training: bool) -> None:
    """See calls.Graph."""
    if call.arguments is None:
        arguments, keywords = (values[call.inputs[0]],), {}
    else:
        tensors = {key: values[slot] for key, slot in call.slots.items()}
        arguments, keywords = call.arguments.fill_in(tensors)
    if call.is_layer:  # layers without the argument pass it on
        keywords = {**keywords, "training": training}
    results = keras.tree.flatten(call.operation(*arguments, **keywords))
    values |= dict(zip(call.outputs, results, strict=True))


def losses(layer: KerasLayer, with_regularizers: bool) -> list[Tensor]:
    """See calls.Graph."""
    if with_regularizers:
        return list(layer.losses)
    return [
        each for inner in layer._flatten_layers() for each in inner._get_own_losses()
    ]
