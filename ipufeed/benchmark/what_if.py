"""`--what-if decode=2x`: the rate that a pipeline would have with a stage changed.

From the model (stage_model.py) alone: nothing runs. `2x` is twice as fast, `0.5x` half as
fast, `free` costs nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipufeed.benchmark.stages import Explanation

MOST_SPEED = 1e6


@dataclass(frozen=True)
class WhatIf:
    """A question: `stage` costs `factor` times what it does."""

    stage: str
    factor: float
    text: str


def parse_what_if(text: str) -> WhatIf:
    """`decode=2x` as a question.

    Raises:
        ValueError: It is not of that form.
    """
    stage, _, change = text.rpartition("=")
    speed = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)x", change.strip())
    if stage and change.strip() == "free":
        return WhatIf(stage, 0.0, text)
    if stage and speed and 1 / MOST_SPEED <= float(speed[1]) <= MOST_SPEED:
        return WhatIf(stage, 1 / float(speed[1]), text)
    raise ValueError(
        "`what_if` must be STAGE=SPEED with a speed such as 2x (twice as fast), 0.5x or "
        f"free, got {text!r}: for example decode=2x."
    )


def answer(question: WhatIf, explanation: Explanation) -> dict[str, Any]:
    """The predicted rate, and what would then hold the pipeline up.

    Raises:
        ValueError: There is no such stage; the message names those that there are.
    """
    nodes = [stage.node for stage in explanation.stages if stage.name == question.stage]
    if not nodes:
        names = ", ".join(f"`{stage.name}`" for stage in explanation.stages[:12])
        raise ValueError(
            f"`what_if` must name a stage of the pipeline, and `{question.stage}` is "
            f"none. There are: {names}."
        )
    factors = dict.fromkeys(nodes, question.factor)
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
