"""Table of the attributes of TensorFlow and Keras that ipufeed replaces, with reasons.

`replace` and `add_entry` accept only the changes of this table, which is the checklist for
an upgrade of TensorFlow. All are of TensorFlow 2.21, tf_keras 2.21 and Keras 3.12 or later.
The replacements themselves are in the modules of their layers.
"""

from __future__ import annotations

import types
from collections.abc import MutableMapping

from ipufeed.tf_patches.change import Change
from ipufeed.tf_patches.keras_changes import KERAS_CHANGES

_SEEDS = "device.random.patches"
_ENDS = Change(
    "raises SystemExit in a daemon thread, at the end of the process",
    *("ending", "tests/faults/test_readers_at_exit.py"),
)
_HOST_DATASETS = Change(
    "builds datasets for the host, in an IPU's scope too",
    *("tf_patches.host_datasets", "tests/device/test_datasets_in_scope.py"),
)
CHANGES = {
    **KERAS_CHANGES,
    "tensorflow.python.client.session.BaseSession.run": Change(
        "raises what a signal's handler raises, such as KeyboardInterrupt",
        *("queues.interrupt", "tests/faults/test_signals.py"),
    ),
    "tensorflow.python.eager.context.Context.call_function": Change(
        "raises what a signal's handler raises, such as KeyboardInterrupt; an error in a "
        "call also ends the programs that it started",
        *("queues.interrupt", "tests/faults/test_signals.py"),
    ),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function."
    "Function.__call__": _ENDS,
    "tensorflow.python.eager.polymorphic_function.concrete_function."
    "ConcreteFunction.__call__": _ENDS,
    "tensorflow.python.eager.polymorphic_function.concrete_function."
    "ConcreteFunction._call_flat": Change(
        "refuses a strategy's program with results of float64 before it runs",
        *("device.program.float64", "tests/programs/test_float64.py"),
    ),
    "tensorflow.python.ops.gradients_util._GradientsHelper": Change(
        "sets the largest number of iterations of a function's loops, which XLA needs",
        *("device.program.loop_bound", "tests/programs/test_loop_bounds.py"),
    ),
    "tensorflow.python.framework.ops.Graph._create_op_internal": _ENDS,
    "tensorflow.python.framework.func_graph.FuncGraph._create_op_internal": _ENDS,
    "tensorflow.python.pywrap_tfe.TFE_Py_FastPathExecute": _ENDS,
    "tensorflow.python.pywrap_tfe.TFE_Py_Execute": _ENDS,
    "tensorflow.python.pywrap_tfe.TFE_Py_ExecuteCancelable": _ENDS,
    "tensorflow.python.eager.cancellation.context": Change(
        "gives each call of a function its own cancellation manager",
        *("queues.eager_calls", "tests/queues/test_two_callers.py"),
    ),
    "tensorflow.python.eager.context.Context.device": Change(
        "refuses /device:IPU:16 and above, for which no simulated IPU exists",
        *("device.queue_hooks", "tests/device/test_device.py"),
    ),
    "tensorflow.python.framework.ops.Graph.device": Change(
        "refuses /device:IPU:16 and above in a graph: no such simulated IPU exists",
        *("device.queue_hooks", "tests/device/test_device.py"),
    ),
    "tensorflow.python.data.ops.dataset_ops.DatasetV2.__iter__": Change(
        "feeds the IPU inside the scope of a strategy that requests it",
        *("device.program.strategy", "tests/device/test_strategy.py"),
    ),
    "tensorflow.python.ops.gen_dataset_ops.*": _HOST_DATASETS,
    "tensorflow.python.ops.gen_experimental_dataset_ops.*": _HOST_DATASETS,
    "tensorflow.python.data.ops.dataset_ops.DatasetV2._GeneratorState."
    "iterator_completed": Change(
        "accepts the end of a generator that no element was requested from",
        *("tf_patches.generator_state", "tests/queues/test_generator_state.py"),
    ),
    "tensorflow.python.data.ops.structured_function."
    "StructuredFunctionWrapper.__init__": Change(
        "traces functions of datasets for the host, in an IPU's scope too",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.eager.polymorphic_function.function_context."
    "make_function_context": Change(
        "traces a tf.function separately for IPUs, as a program and as part of one",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.eager.polymorphic_function.tracing_compilation."
    "trace_function": Change(
        "traces a function that draws seeds once for each call inside a program",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.ops.gen_random_ops.*": Change(
        "builds random ops that draw the device's seeds, on an IPU",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.ops.gen_image_ops.*": Change(
        "builds random crops and boxes that draw the device's seeds, on an IPU",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.gen_candidate_sampling_ops.*": Change(
        "builds samplers of classes that draw the device's seeds, on an IPU; warns about "
        "those that the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.gen_nn_ops.*": Change(
        "warns about fractional pooling, which the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.stateful_random_ops.Generator.*": Change(
        "warns about generators without a seed, which the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow._api.v2.raw_ops.ImageProjectiveTransformV3": Change(
        "becomes gathers in a program for an IPU, since XLA lacks it",
        *("tf_patches.projective", "tests/keras/test_keras_images.py"),
    ),
    "tensorflow.python.ops.gen_image_ops.resize_nearest_neighbor_grad": Change(
        "becomes sums in a program for an IPU, since XLA does not have it",
        *("tf_patches.resize_gradient", "tests/ops/test_resize_gradients.py"),
    ),
    "tensorflow._api.v2.raw_ops.*": Change(
        "builds tf.raw_ops' random ops so that they draw the device's seeds, on an IPU",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.keras": Change(
        "becomes the Keras in use, for programs that import it by this name",
        *("tf_patches.frozen_keras", "tests/keras/test_keras_optimizers.py"),
    ),
    "tensorflow.python.autograph.core.config.CONVERSION_RULES": Change(
        "does not rewrite functions of ipufeed",
        *("queues.autograph", "tests/device/loops/test_loops.py"),
    ),
    "tensorflow.python.ops.cond.util": Change(
        "makes tf.cond build an If operation in the body of a version 1 loop",
        *("tf_patches.loop_version", "tests/device/loops/test_loop_gradients.py"),
    ),
    "tensorflow.python.ops.control_flow_util.ENABLE_CONTROL_FLOW_V2": Change(
        "follows `repeat`'s argument while it builds a loop in a version 1 graph",
        *("tf_patches.loop_version", "tests/device/loops/test_loops.py"),
    ),
    "tensorflow.python.ops.while_v2.while_loop": Change(
        "accumulates gradients in a loop of TensorFlow's own",
        *("device.program.plain_loops", "tests/parallel/test_plain_loops.py"),
    ),
    "tensorflow.python.ops.control_flow_ops.WhileContext.BuildLoop": Change(
        "accumulates gradients in a loop of TensorFlow's own, in a version 1 graph",
        *("device.program.plain_loops", "tests/parallel/test_plain_loops.py"),
    ),
    "tensorflow.python.ops.gen_logging_ops._assert": Change(
        "keeps assertions in compiled programs of an IPU",
        *("tf_patches.asserts", "tests/programs/test_asserts.py"),
    ),
    **dict.fromkeys(
        (
            "tensorflow.python.ops.custom_gradient.recompute_grad",
            "tensorflow.recompute_grad",
            # Modules have one name or the other, by the first import.
            *(f"tensorflow._api.v2.compat.v{n}.recompute_grad" for n in (1, 2)),
            *(f"tensorflow.compat.v{n}.recompute_grad" for n in (1, 2)),
        ),
        Change(
            "the recomputation gets the seeds that the forward has drawn",
            *("device.random.recomputed", "tests/ops/test_recomputed_seeds.py"),
        ),
    ),
    "tensorflow.python.ops.tensor_array_ops._GraphTensorArrayV2.__init__": Change(
        "refuses an array of size 0 that grows in a compiled program",
        *("tf_patches.growing_arrays", "tests/programs/test_growing_graphs.py"),
    ),
    "tensorflow.python.ops.parallel_for.pfor.PFor.__init__": Change(
        "refuses queue operations in tf.vectorized_map, which would lose elements",
        *("tf_patches.vectorized_map", "tests/queues/test_order.py"),
    ),
    "tensorflow.compat.v1.estimator": Change(
        "has what programs with an IPUEstimator use of TensorFlow's own",
        *("tf_patches.removed_names", "tests/estimators/test_tf_estimator.py"),
    ),
    **dict.fromkeys(
        (
            *("tensorflow.compat.v1.layers.*", "tensorflow.compat.v1.nn.rnn_cell.*"),
            "tensorflow.python.layers.normalization.*",
        ),
        Change(
            "has what TensorFlow keeps of version 1 without public names",
            *("tf_patches.removed_names", "tests/programs/test_removed_names.py"),
        ),
    ),
    **dict.fromkeys(
        (
            *("keras._tf_keras.keras.losses.*", "keras._tf_keras.keras.metrics.*"),
            "keras._tf_keras.keras.layers.experimental",
            *("keras._tf_keras.keras.experimental", "tensorflow.keras.experimental"),
            "keras.mixed_precision.experimental",
            *("tensorflow.keras.losses.*", "tensorflow.keras.metrics.*"),
            "tensorflow.keras.layers.experimental",
            "tensorflow.keras.mixed_precision.experimental",
            "tf_keras.api._v2.keras.mixed_precision.experimental",
        ),
        Change(
            "has names of Keras 2 that have another place, or none, since",
            *("tf_patches.removed_names", "tests/programs/test_removed_names.py"),
        ),
    ),
    **dict.fromkeys(
        (
            "tensorflow.python.eager.function.defun",
            "tensorflow.python.ops.array_ops.*",
            "tensorflow.python.ops.control_flow_ops.*",
            "tensorflow.python.ops.variables.VariableV1",
            "tensorflow.python.framework.ops.Tensor",
            "tensorflow.python.distribute.distribution_strategy_context",
            "tensorflow.python.training.tracking",
            "tensorflow.python.training.tracking.*",
        ),
        Change(
            "has what TensorFlow has moved to other modules of tensorflow.python",
            *("tf_patches.moved_names", "tests/programs/test_removed_names.py"),
        ),
    ),
    "tensorflow.python.ops.script_ops._py_funcs._funcs.*": Change(
        "has the functions that a SavedModel's calls of an engine name by their tokens",
        *("applications.saved_calls", "tests/applications/test_embedded_runtime.py"),
    ),
}


def replace(owner: types.ModuleType | type, name: str, replacement: object) -> None:
    """Replaces an attribute of a module or class of TensorFlow.

    Raises:
        KeyError: The change is not in the table.
    """
    place = owner.__name__
    if isinstance(owner, type):
        place = f"{owner.__module__}.{owner.__qualname__}"
    _require_row(place, name)
    setattr(owner, name, replacement)


def add_entry(
    place: str, entries: MutableMapping[str, object], name: str, value: object
) -> None:
    """Adds an entry to a table of TensorFlow, such as the names of a lazy module.

    Args:
        place: The table's name in CHANGES.
        entries: The table.
        name: The entry's name.
        value: The entry.

    Raises:
        KeyError: The change is not in the table of changes.
    """
    _require_row(place, name)
    entries[name] = value


def _require_row(place: str, name: str) -> None:
    if f"{place}.{name}" not in CHANGES and f"{place}.*" not in CHANGES:
        raise KeyError(f"{place}.{name} is replaced, and CHANGES has no row for it")
