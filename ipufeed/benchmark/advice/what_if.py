"""`--what-if decode=2x`: predicts the rate of a pipeline with a changed stage.

The prediction is the model's (stages/model.py); nothing is run. `2x` is twice as fast,
`0.5x` half as fast, `free` takes no time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph
from ipufeed.benchmark.result.sections import WhatIfSection
from ipufeed.benchmark.result.settings import SettingError

if TYPE_CHECKING:
    from ipufeed.benchmark.stages.explain import Explanation

MOST_SPEED = 1e6
MOST_NAMES = 12


@dataclass(frozen=True)
class WhatIf:
    """A question: `stage` costs `factor` times as much."""

    stage: str
    factor: float
    text: str


def parse_what_if(text: str) -> WhatIf:
    """Parses a question such as `decode=2x`.

    Raises:
        SettingError: (a ValueError) It is not of that form.
    """
    stage, _, change = text.rpartition("=")
    speed = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)x", change.strip())
    if stage and change.strip() == "free":
        return WhatIf(stage, 0.0, text)
    if stage and speed and 1 / MOST_SPEED <= float(speed[1]) <= MOST_SPEED:
        return WhatIf(stage, 1 / float(speed[1]), text)
    raise SettingError(
        "{} must be STAGE=SPEED with a speed such as 2x (twice as fast), 0.5x or "
        "free, got {text!r}: for example decode=2x.",
        "what_if",
        text=text,
    )


def check_stages(questions: Iterable[WhatIf], dataset: Any) -> None:
    """Checks that a dataset has the stages that questions name, without iterating it.

    A dataset whose graph cannot be read is checked when it is measured.

    Raises:
        SettingError: (a ValueError) A stage does not exist; the message names the existing
            ones.
    """
    import tensorflow as tf

    from ipufeed.benchmark.graph.names import stage_names

    if not tf.executing_eagerly() or not isinstance(dataset, tf.data.Dataset):
        return
    if tf.is_symbolic_tensor(dataset._variant_tensor):
        return
    try:
        names = stage_names(PipelineGraph.of(dataset))
    except tf.errors.OpError:
        return
    for question in questions:
        _nodes_of_stage(question, names)


def _nodes_of_stage(question: WhatIf, names: Mapping[str, str]) -> list[str]:
    nodes = [node for node, name in names.items() if name == question.stage]
    if not nodes:
        there = ", ".join(f"`{name}`" for name in list(names.values())[:MOST_NAMES])
        raise SettingError(
            "{} must name a stage of the pipeline, got `{stage}`. There are: {there}.",
            "what_if",
            stage=question.stage,
            there=there,
        )
    return nodes


def answer(question: WhatIf, explanation: Explanation) -> WhatIfSection:
    """Returns the predicted rate, and the bottleneck of the changed pipeline.

    Raises:
        SettingError: (a ValueError) The stage does not exist; the message names the
            existing ones.
    """
    factors = dict.fromkeys(
        _nodes_of_stage(question, explanation.names), question.factor
    )
    gain = explanation.model.predict(factors)
    limit = explanation.model.next_limit(factors)
    predicted = explanation.rate * gain
    return {
        "question": question.text,
        "stage": question.stage,
        "elements_per_second": explanation.rate,
        "predicted_elements_per_second": predicted
        if math.isfinite(predicted)
        else None,
        "next": "CPU" if limit is None else explanation.names[limit],
    }
