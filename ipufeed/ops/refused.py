"""Graphcore's names that cannot work here: an import finds them, a call raises an error.

The error names the replacement.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ipufeed.errors import RefusedError

_GFLOAT = (
    "the number formats of popfloat are Poplar's; use tf.quantization.fake_quant_with_"
    "min_max_args, or a cast to a dtype of ml_dtypes"
)
_ACCUMULATE = (
    "it puts accumulation into Graphcore's optimizers; use "
    "optimizers.GradientAccumulationOptimizerV2, or the gradient_accumulation_count of "
    "pipelining_ops.pipeline"
)
_CONFIG = "it makes attributes of IPUConfig's own class; assign to those that there are"

_LIVE = (
    "it writes files for Poplar's readers; use dataset_extractor.export_variables("
    "variables, names, filename), which gives an operation to run in a session, and in "
    "eager mode writes the values of a model's variables"
)

# Name -> why, and the replacement: the end of the error's sentence.
NAMES = {
    "AttributeMetadata": f"{_CONFIG}, and read IPUConfig.get_attribute_metadata(name)",
    "GenericFloat": _GFLOAT,
    "accumulate_tagged_gradients": _ACCUMULATE,
    "calc_gfloat_params": _GFLOAT,
    "cast_gfloat_to_native": _GFLOAT,
    "cast_native_to_gfloat": _GFLOAT,
    "create_resource_update": _ACCUMULATE,
    "deprecate_config_attribute": _CONFIG,
    "deprecate_config_attributes": _CONFIG,
    "export_variables_from_live_model": _LIVE,
    "export_variables_from_live_session": _LIVE,
}


class Refused:
    """An object that raises when it is called, and when it is the base of a class.

    Args:
        name: Its name, for the error.
        why: Why it does not work, and the replacement: the end of the error's sentence.
    """

    def __init__(self, name: str, why: str) -> None:
        self.__name__ = name
        self._why = why

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises RefusedError."""
        raise RefusedError(f"{self.__name__} does not work here: {self._why}.")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        self()


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = Refused(name, NAMES[name])
    return value
