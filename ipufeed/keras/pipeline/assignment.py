"""The classes in which a program reads and writes the stages of layer calls.

Source: Graphcore's classes of these names.
"""

from __future__ import annotations

from typing import Any


class _OfLayer:
    """The stage of a layer's call."""

    is_nested_model = False

    def __init__(
        self, layer: Any, node_index: int, pipeline_stage: int | None = None
    ) -> None:
        self._layer = layer
        self._node_index = node_index
        self._inbound: list[Any] = []
        self.pipeline_stage = pipeline_stage

    @property
    def layer(self) -> Any:
        """The layer that is called."""
        return self._layer

    @property
    def node_index(self) -> int:
        """Which of the layer's calls this is."""
        return self._node_index

    @property
    def inbound_layers(self) -> Any:
        """The layers that made its inputs; one, or a list."""
        return self._inbound[0] if len(self._inbound) == 1 else list(self._inbound)

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
        node_index: Which of its calls it is.
        pipeline_stage: The stage, from 0. Default: None, which a pipeline refuses.
    """


class ModelLayerPipelineStageAssignment(_OfLayer):
    """The stage of a layer's call in a subclass of Model.

    Args:
        layer: The layer.
        node_index: Which of its calls it is.
        pipeline_stage: The stage, from 0. Default: None, which a pipeline refuses.
    """


class SequentialLayerPipelineStageAssignment(_OfLayer):
    """The stage of a layer of a Sequential.

    Args:
        layer: The layer.
        pipeline_stage: The stage, from 0. Default: None, which a pipeline refuses.
    """

    def __init__(self, layer: Any, pipeline_stage: int | None = None) -> None:
        super().__init__(layer, 0, pipeline_stage)

    def __str__(self) -> str:
        return (
            f"Layer: {self._layer.name} is assigned to pipeline stage: "
            f"{self.pipeline_stage}"
        )


class _OfModel:
    """The stages of the calls in a nested model."""

    is_nested_model = True

    def __init__(
        self, nested_model: Any, node_index: int, pipeline_stage_assignments: Any
    ) -> None:
        self._nested_model = nested_model
        self._node_index = node_index
        self._inbound: list[Any] = []
        self._assignments = list(pipeline_stage_assignments)

    @property
    def nested_model(self) -> Any:
        """The model that is called."""
        return self._nested_model

    @property
    def layer(self) -> Any:
        """The same, as of a layer."""
        return self._nested_model

    @property
    def node_index(self) -> int:
        """Which of the model's calls this is."""
        return self._node_index

    @property
    def inbound_layers(self) -> Any:
        """The layers that made its inputs; one, or a list."""
        return self._inbound[0] if len(self._inbound) == 1 else list(self._inbound)

    @property
    def pipeline_stage_assignments(self) -> list[Any]:
        """Those of the calls inside."""
        return self._assignments

    def _title(self) -> str:
        return f"Model: {self._nested_model.name} (node index {self._node_index})"

    def __str__(self) -> str:
        lines = [
            f"{self._title()} has the following pipeline stage assignments:",
            *(str(each) for each in self._assignments),
        ]
        return "\n".join(lines)


class FunctionalNestedModelPipelineStageAssignment(_OfModel):
    """The stages of a nested model's call in a functional model.

    Args:
        nested_model: The model.
        node_index: Which of its calls it is.
        pipeline_stage_assignments: A list of assignments, of the calls inside.
    """


class NestedModelPipelineStageAssignment(_OfModel):
    """The stages of a nested model's call in a subclass of Model.

    Args:
        nested_model: The model.
        node_index: Which of its calls it is.
        pipeline_stage_assignments: A list of assignments, of the calls inside.
    """


class SequentialNestedModelPipelineStageAssignment(_OfModel):
    """The stages of a nested model in a Sequential.

    Args:
        nested_model: The model.
        pipeline_stage_assignments: A list of assignments, of the calls inside.
    """

    def __init__(self, nested_model: Any, pipeline_stage_assignments: Any) -> None:
        super().__init__(nested_model, 0, pipeline_stage_assignments)

    def _title(self) -> str:
        return f"Model: {self._nested_model.name}"


# The classes for layers, and for nested models, by the kind of model.
CLASSES: dict[str, tuple[type[_OfLayer], type[_OfModel]]] = {
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


def assignments_of(calls: list[Any], kind: str, kinds: Any) -> list[Any]:
    """The assignments of a model's calls, those that are not of a layer left out.

    Args:
        calls: See calls.Graph.
        kind: Of CLASSES.
        kinds: Gives the kind of a nested model.
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
            _OfModel.__init__(one, call.operation, call.node_index, inner)
        else:
            one = of_layer.__new__(of_layer)
            _OfLayer.__init__(one, call.operation, call.node_index, call.stage)
        one._inbound = list(call.inbound)
        found.append(one)
    return found


def assign(calls: list[Any], given: Any, model: Any, kind: str, kinds: Any) -> None:
    """Checks assignments against a model's calls, and gives them their stages.

    Args:
        calls: See calls.Graph.
        given: What set_pipeline_stage_assignment got.
        model: The model, for errors.
        kind: Of CLASSES.
        kinds: Gives the kind of a nested model.

    Raises:
        ValueError: They are of other calls, of another class, or have no stage.
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
        expected: Any = of_layer if call.inner is None else of_model
        if kind == "sequential" and call.inner is None and _is_stage(one):
            call.stage = one
            continue
        if kind == "sequential" and _is_stage(one):
            for inner in _flat(call.inner):
                inner.stage = one
            continue
        if not isinstance(one, expected):
            raise ValueError(
                f"The pipeline stage assignment for layer {call.operation.name} in "
                f"{model.name} must be an instance of `{expected.__name__}`. Instead the "
                f"assignment was of type {type(one).__name__}."
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
            raise ValueError(
                f"Layer {call.operation.name} with node_index {call.node_index} has not "
                "been assigned a pipeline stage in `pipeline_stage_assignment`."
            )
        else:
            call.stage = one.pipeline_stage


def _flat(calls: Any) -> Any:
    for each in calls:
        yield from [each] if each.inner is None else _flat(each.inner)


def _is_stage(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
