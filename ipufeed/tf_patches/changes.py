"""Every attribute of TensorFlow and Keras that ipufeed replaces, and why.

`replace` makes the changes of this table and no others, so that an upgrade of TensorFlow
has one list to go through. All are of TensorFlow 2.21 and Keras 3.12 or later. What the
replacements do stands in the modules that make them: it belongs to their layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """An attribute that is replaced.

    Attributes:
        why: What it does afterwards that it did not before.
        where: The module that makes the replacement, of ipufeed.
        test: The file of tests that fails without it.
    """

    why: str
    where: str
    test: str


_SEEDS = "device.random.patches"
CHANGES = {
    "tensorflow.python.client.session.BaseSession.run": Change(
        "raises what a signal's handler raises, such as KeyboardInterrupt",
        *("queues.interrupt", "tests/faults/test_signals.py"),
    ),
    "tensorflow.python.eager.context.Context.call_function": Change(
        "likewise; an error in it ends the programs that it has started",
        *("queues.interrupt", "tests/faults/test_signals.py"),
    ),
    "tensorflow.python.eager.cancellation.context": Change(
        "gives each call of a function a cancellation manager of its own",
        *("queues.interrupt", "tests/queues/test_two_callers.py"),
    ),
    "tensorflow.python.eager.context.Context.device": Change(
        "refuses /device:IPU:16 and above, which has no simulated IPU",
        *("device.queue_hooks", "tests/device/test_device.py"),
    ),
    "tensorflow.python.framework.ops.Graph.device": Change(
        "likewise, in a graph",
        *("device.queue_hooks", "tests/device/test_device.py"),
    ),
    "tensorflow.python.data.ops.dataset_ops.DatasetV2.__iter__": Change(
        "feeds the IPU inside the scope of a strategy that asks for it",
        *("device.program.strategy", "tests/device/test_strategy.py"),
    ),
    "tensorflow.python.data.ops.structured_function.StructuredFunctionWrapper.__init__": (
        Change(
            "traces functions of datasets for the host, in an IPU's scope too",
            *(_SEEDS, "tests/device/test_seeds.py"),
        )
    ),
    "tensorflow.python.eager.polymorphic_function.function_context."
    "make_function_context": Change(
        "traces a tf.function separately for IPUs, as a program and as a part of one",
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
        "likewise, for crops and boxes",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.gen_candidate_sampling_ops.*": Change(
        "likewise, for classes; warns of those that the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.gen_nn_ops.*": Change(
        "warns of fractional pooling, which the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow.python.ops.stateful_random_ops.Generator.*": Change(
        "warns of generators without a seed, which the device's seed does not reach",
        *(_SEEDS, "tests/ops/test_samplers.py"),
    ),
    "tensorflow._api.v2.raw_ops.ImageProjectiveTransformV3": Change(
        "becomes gathers in a program for an IPU, since XLA does not have it",
        *("tf_patches.projective", "tests/keras/test_keras_images.py"),
    ),
    "tensorflow._api.v2.raw_ops.*": Change(
        "likewise, for tf.raw_ops",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.keras": Change(
        "is the Keras in use, for programs that import it by this name",
        *("tf_patches.frozen_keras", "tests/keras/test_keras_optimizers.py"),
    ),
    "keras.src.saving.saving_lib._model_from_config": Change(
        "sets the options of an IPU that a saved model has, when it is loaded",
        *("keras.keras3", "tests/keras/test_keras_saving.py"),
    ),
    "keras.src.utils.tf_utils.tf_encode_categorical_inputs": Change(
        "lets Keras's other way be taken in a program: XLA has no bincount for it",
        *("keras.keras3", "tests/keras/test_keras_images.py"),
    ),
    "keras.src.random.seed_generator.SeedGenerator.next": Change(
        "gives a device's seeds on an IPU whose seed has been reset",
        *(_SEEDS, "tests/device/test_seeds.py"),
    ),
    "tensorflow.python.autograph.core.config.CONVERSION_RULES": Change(
        "does not rewrite functions of ipufeed",
        *("queues.autograph", "tests/device/test_loops.py"),
    ),
    "tensorflow.python.ops.control_flow_util.ENABLE_CONTROL_FLOW_V2": Change(
        "is what `repeat` asks for, while it builds a loop in a version 1 graph",
        *("device.program.loops", "tests/device/test_loops.py"),
    ),
    "tensorflow.python.ops.gen_logging_ops._assert": Change(
        "makes assertions hold in compiled programs of an IPU",
        *("tf_patches.asserts", "tests/programs/test_asserts.py"),
    ),
    "tensorflow.python.ops.parallel_for.pfor.PFor.__init__": Change(
        "refuses queue operations in tf.vectorized_map, which would lose elements",
        *("tf_patches.vectorized_map", "tests/queues/test_order.py"),
    ),
}


def replace(owner: Any, name: str, replacement: Any) -> None:
    """Replaces an attribute of a module or a class of TensorFlow.

    Raises:
        KeyError: The table has no such change.
    """
    place = owner.__name__
    if isinstance(owner, type):
        place = f"{owner.__module__}.{owner.__qualname__}"
    if f"{place}.{name}" not in CHANGES and f"{place}.*" not in CHANGES:
        raise KeyError(f"{place}.{name} is replaced, and CHANGES has no row for it")
    setattr(owner, name, replacement)
