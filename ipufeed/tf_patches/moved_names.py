"""Restores names and modules inside `tensorflow.python` that TensorFlow has moved.

    control_flow_ops.cond, while_loop, case, Assert; array_ops.stack; framework.ops.Tensor;
    variables.VariableV1; eager.function.defun                  restored: see MOVED
    training.tracking, distribute.distribution_strategy_context  restored: see MODULES

Programs of TensorFlow 1.15 to 2.6 import them there. A name that exists stays.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types

from ipufeed.tf_patches.changes import add_entry

_OPS = "tensorflow.python.ops"
_TRACKING = "tensorflow.python.training.tracking"
# Module -> its former names -> the module and the name that each has now.
MOVED = {
    f"{_OPS}.control_flow_ops": {
        "while_loop": f"{_OPS}.while_loop:while_loop",
        "cond": f"{_OPS}.cond:cond",
        "case": f"{_OPS}.control_flow_case:case",
        "switch_case": f"{_OPS}.control_flow_switch_case:switch_case",
        "Assert": f"{_OPS}.control_flow_assert:Assert",
    },
    f"{_OPS}.array_ops": {
        "stack": f"{_OPS}.array_ops_stack:stack",
        "unstack": f"{_OPS}.array_ops_stack:unstack",
    },
    f"{_OPS}.variables": {"VariableV1": f"{_OPS}.variable_v1:VariableV1"},
    "tensorflow.python.framework.ops": {
        "Tensor": "tensorflow.python.framework.tensor:Tensor"
    },
    "tensorflow.python.eager.function": {
        "defun": "tensorflow.python.eager.polymorphic_function.polymorphic_function:"
        "function"
    },
}
# Former module -> the one that has its names now.
MODULES = {
    "tensorflow.python.distribute.distribution_strategy_context": (
        "tensorflow.python.distribute.distribute_lib"
    ),
    f"{_TRACKING}.base": "tensorflow.python.trackable.base",
    f"{_TRACKING}.data_structures": "tensorflow.python.trackable.data_structures",
    f"{_TRACKING}.graph_view": "tensorflow.python.checkpoint.graph_view",
    f"{_TRACKING}.tracking": "tensorflow.python.trackable.autotrackable",
    f"{_TRACKING}.util": "tensorflow.python.checkpoint.checkpoint",
}


def restore() -> None:
    """Restores what is missing. Idempotent."""
    for former, names in MOVED.items():
        entries = vars(importlib.import_module(former))
        for name, place in names.items():
            module, _, now = place.partition(":")
            if name not in entries:
                found = getattr(importlib.import_module(module), now)
                add_entry(former, entries, name, found)
    package = types.ModuleType(_TRACKING, "Modules that TensorFlow has moved.")
    package.__path__ = []
    _put(_TRACKING, package)
    for former, place in MODULES.items():
        _put(former, importlib.import_module(place))


def _put(name: str, module: types.ModuleType) -> None:
    """Makes a module importable by a name that no module has."""
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        return
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    add_entry(parent, vars(sys.modules[parent]), last, module)
