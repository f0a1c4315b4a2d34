"""The classes with which a program reads and sets the stages of layer calls.

Source: Graphcore's classes of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ipufeed.checks import is_int
from ipufeed.keras.pipeline.calls import Call, flat
from ipufeed.tf_types import KerasLayer, KerasModel


class _OfCall:
    """What the assignments of layers and of nested models have in common."""

    def __init__(self, node_index: int) -> None:
        self._node_index = node_index
        self._inbound: list[KerasLayer] = []

    @property
    def node_index(self) -> int:
        """The number of this call among those of the layer or model."""
        return self._node_index

    @property
    def inbound_layers(self) -> KerasLayer:
        """The layer that made its input, or a list of several."""
        return self._inbound[0] if len(self._inbound) == 1 else list(self._inbound)


class _OfLayer(_OfCall):
    """The stage of a layer's call."""

    is_nested_model = False

    def __init__(
        self, layer: KerasLayer, node_index: int, pipeline_stage: int | None = None
    ) -> None:
        super().__init__(node_index)
        self._layer = layer
        self.pipeline_stage = pipeline_stage

    @property
    def layer(self) -> KerasLayer:
        """The layer that is called."""
        return self._layer

    @property
    def pipeline_stage(self) -> int | None:
        """The stage, from 0; None: not assigned yet."""
        return self._pipeline_stage

    @pipeline_stage.setter
    def pipeline_stage(self, stage: int | None) -> None:
        self._pipeline_stage = stage

    def __str__(self) -> str:
        return (
            f"Layer: {self._layer.name} (node index {self._node_index}) is assigned to "
            f"pipeline stage: {self.pipeline_stage}"
        )


class FunctionalLayerPipelineStageAssignment(_OfLayer):
    """The stage of a layer's call in a functional model.

    Args:
        layer: The layer.
        node_index: The number of the call, among those of the layer.
        pipeline_stage: The stage, from 0. Default: None, which a pipeline refuses.
    """


class ModelLayerPipelineStageAssignment(_OfLayer):
    """The stage of a layer's call in a subclass of Model.

    Args:
        layer: The layer.
        node_index: The number of the call, among those of the layer.
        pipeline_stage: The stage, from 0. Default: None, which a pipeline refuses.
    """


class SequentialLayerPipelineStageAssignment(_OfLayer):
    """The stage of a layer of a Sequential.

    Args:
        layer: The layer.
        pipeline_stage: The stage, from 0. Default: None, which a pipeline refuses.
    """

    def __init__(self, layer: KerasLayer, pipeline_stage: int | None = None) -> None:
        super().__init__(layer, 0, pipeline_stage)

    def __str__(self) -> str:
        return (
            f"Layer: {self._layer.name} is assigned to pipeline stage: "
            f"{self.pipeline_stage}"
        )


class OfModel(_OfCall):
    """The stages of the calls in a nested model."""

    is_nested_model = True

    def __init__(
        self,
        nested_model: KerasModel,
        node_index: int,
        pipeline_stage_assignments: Iterable[Assignment],
    ) -> None:
        super().__init__(node_index)
        self._nested_model = nested_model
        self._assignments = list(pipeline_stage_assignments)

    @property
    def nested_model(self) -> KerasModel:
        """The model that is called."""
        return self._nested_model

    @property
    def layer(self) -> KerasLayer:
        """The model, named as for a layer."""
        return self._nested_model

    @property
    def pipeline_stage_assignments(self) -> list[Assignment]:
        """The assignments of the calls inside."""
        return self._assignments

    def _title(self) -> str:
        return f"Model: {self._nested_model.name} (node index {self._node_index})"

    def __str__(self) -> str:
        lines = [
            f"{self._title()} has the following pipeline stage assignments:",
            *(str(each) for each in self._assignments),
        ]
        return "\n".join(lines)


class FunctionalNestedModelPipelineStageAssignment(OfModel):
    """The stages of a nested model's call in a functional model.

    Args:
        nested_model: The model.
        node_index: The number of the call, among those of the layer.
        pipeline_stage_assignments: A list of assignments, of the calls inside.
    """


class NestedModelPipelineStageAssignment(OfModel):
    """The stages of a nested model's call in a subclass of Model.

    Args:
        nested_model: The model.
        node_index: The number of the call, among those of the layer.
        pipeline_stage_assignments: A list of assignments, of the calls inside.
    """


class SequentialNestedModelPipelineStageAssignment(OfModel):
    """The stages of a nested model in a Sequential.

    Args:
        nested_model: The model.
        pipeline_stage_assignments: A list of assignments, of the calls inside.
    """

    def __init__(
        self, nested_model: KerasModel, pipeline_stage_assignments: Iterable[Assignment]
    ) -> None:
        super().__init__(nested_model, 0, pipeline_stage_assignments)

    def _title(self) -> str:
        return f"Model: {self._nested_model.name}"


Assignment = _OfLayer | OfModel

# Kind of model -> classes for layers and for nested models.
CLASSES: dict[str, tuple[type[_OfLayer], type[OfModel]]] = {
    "sequential": (
        SequentialLayerPipelineStageAssignment,
        SequentialNestedModelPipelineStageAssignment,
    ),
    "functional": (
        FunctionalLayerPipelineStageAssignment,
        FunctionalNestedModelPipelineStageAssignment,
    ),
    "model": (ModelLayerPipelineStageAssignment, NestedModelPipelineStageAssignment),
}


def assignments_of(
    calls: list[Call], kind: str, kinds: Callable[[KerasModel], str]
) -> list[Assignment]:
    """Makes the assignments of a model's calls of layers.

    Args:
        calls: See calls.Graph.
        kind: A key of CLASSES.
        kinds: Returns the kind of a nested model.
    """
    of_layer, of_model = CLASSES[kind]
    found = []
    for call in calls:
        if not call.is_layer:
            continue
        one: Any
        if call.inner is not None:
            inner = assignments_of(call.inner, kinds(call.operation), kinds)
            one = of_model.__new__(of_model)
            OfModel.__init__(one, call.operation, call.node_index, inner)
        else:
            one = of_layer.__new__(of_layer)
            _OfLayer.__init__(one, call.operation, call.node_index, call.stage)
        one._inbound = list(call.inbound)
        found.append(one)
    return found


def assign(
    calls: list[Any], given: Any, model: KerasModel, kind: str, kinds: Any
) -> None:
    """Checks assignments against a model's calls, and sets the calls' stages.

    Args:
        calls: See calls.Graph.
        given: The argument of set_pipeline_stage_assignment.
        model: The model, for errors.
        kind: A key of CLASSES.
        kinds: Returns the kind of a nested model.

    Raises:
        ValueError: They do not match the calls, have another class, or no stage.
    """
    if not isinstance(given, list):
        raise ValueError("`pipeline_stage_assignment` needs to be a list.")
    layers = [each for each in calls if each.is_layer]
    if len(given) != len(layers):
        raise ValueError(
            "The length of the provided `pipeline_stage_assignment` "
            f"({len(given)}) does not match the number of layers in the graph "
            f"({len(layers)}). Each layer needs to be assigned a pipeline stage (excluding "
            "input layers)."
        )
    of_layer, of_model = CLASSES[kind]
    one: Any
    for call, one in zip(layers, given, strict=True):
        if one is None:
            _refuse_none(call)
        expected: Any = of_layer if call.inner is None else of_model
        if kind == "sequential" and call.inner is None and _is_stage(one):
            call.stage = int(one)
            continue
        if kind == "sequential" and _is_stage(one):
            for inner in flat(call.inner):
                inner.stage = int(one)
            continue
        if not isinstance(one, expected):
            number = "an int of at least 0, or " * (kind == "sequential")
            value = f": {one}" if isinstance(one, int) else ""
            raise ValueError(
                f"The pipeline stage assignment for layer {call.operation.name} in "
                f"{model.name} must be {number}an instance of `{expected.__name__}`. "
                f"Instead the assignment was of type {type(one).__name__}{value}."
            )
        if one.layer is not call.operation or (
            kind != "sequential" and one.node_index != call.node_index
        ):
            raise ValueError(
                "The order of `pipeline_stage_assignment` does not match the post-order "
                f"generated from the graph ({one.layer.name} != {call.operation.name})."
            )
        if call.inner is not None:
            nested = call.operation
            assign(
                call.inner, one.pipeline_stage_assignments, nested, kinds(nested), kinds
            )
        elif one.pipeline_stage is None:
            _refuse_none(call)
        elif not _is_stage(one.pipeline_stage):
            raise ValueError(
                f"The pipeline stage of layer {call.operation.name} in {model.name} must "
                f"be an int of at least 0, got {one.pipeline_stage!r}."
            )
        else:
            call.stage = int(one.pipeline_stage)


def _refuse_none(call: Call) -> NoReturn:
    raise ValueError(
        f"Layer {call.operation.name} with node_index {call.node_index} has not been "
        "assigned a pipeline stage in `pipeline_stage_assignment`."
    )


def _is_stage(value: object) -> bool:
    return is_int(value) and value >= 0
