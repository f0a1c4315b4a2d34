"""Layers of Graphcore's `ipu.keras.layers`, as subclasses of Keras's layers.

    basic      Dropout, Embedding, SerialDense, RecomputationCheckpoint, ...
    norms      GroupNormalization, InstanceNormalization, LayerNormalization
    recurrent  LSTM and GRU, also as PopnnLSTM and PopnnGRU

They work in any model, on the IPU or not. Options on the hardware's memory have no
effect, with a warning. Uses no other folder.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "AssumeEqualAcrossReplicas": ("basic", "AssumeEqualAcrossReplicas"),
    "Dropout": ("basic", "Dropout"),
    "Embedding": ("basic", "Embedding"),
    "GRU": ("recurrent", "GRU"),
    "GroupNorm": ("norms", "GroupNormalization"),
    "GroupNormalization": ("norms", "GroupNormalization"),
    "InstanceNorm": ("norms", "InstanceNormalization"),
    "InstanceNormalization": ("norms", "InstanceNormalization"),
    "LSTM": ("recurrent", "LSTM"),
    "LayerNorm": ("norms", "LayerNormalization"),
    "LayerNormalization": ("norms", "LayerNormalization"),
    "PopnnGRU": ("recurrent", "GRU"),
    "PopnnLSTM": ("recurrent", "LSTM"),
    "RecomputationCheckpoint": ("basic", "RecomputationCheckpoint"),
    "SerialDense": ("basic", "SerialDense"),
}
_REFUSED = {
    "CaptureActivationGradients": "GradientCaptureTape in a `train_step` of your own",
    "CaptureUpstreamGradients": "GradientCaptureTape in a `train_step` of your own",
    "CTCInferenceLayer": "tf.nn.ctc_beam_search_decoder, on the host",
    "CTCPredictionsLayer": "tf.nn.ctc_beam_search_decoder, on the host",
    "EffectiveTransformer": "keras.layers.MultiHeadAttention with an attention_mask",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        raise AttributeError(
            f"`{name}` is not supported on a simulated IPU. Use {_REFUSED[name]}."
        )
    if name not in _NAMES:
        raise AttributeError(f"module 'ipufeed.keras.layers' has no attribute {name!r}")
    module, attribute = _NAMES[name]
    found = importlib.import_module(f"ipufeed.keras.layers.{module}")
    value = globals()[name] = getattr(found, attribute)
    return value


def __dir__() -> list[str]:
    return __all__
