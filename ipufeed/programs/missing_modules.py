"""Graphcore's modules that do not exist here, and the replacement of each, as text.

ipufeed.compat raises them as errors of the import.
"""

from __future__ import annotations

PLUGIN = "tensorflow.compiler.plugin"
_POPLAR = f"{PLUGIN}.poplar"
_IPU = "tensorflow.python.ipu"

_EVENTS = (
    "A simulated IPU has no events (IpuTraceEvent). Reports are written to files with "
    """POPLAR_ENGINE_OPTIONS='{"autoReport.all": "true"}', and `python -m """
    "ipufeed.executable explain` shows why a program was compiled again"
)
_RAW = "Its raw operations do not exist here. Use"
_TESTS = (
    "Graphcore's own tests import it. Configure with ipu.config.IPUConfig and use "
    "tf.test.TestCase; in place of its report readers, `python -m ipufeed.executable show`"
)
_CONFIG = (
    "Use ipu.config.IPUConfig; its message is IpuOptions of "
    f"{_POPLAR}.driver.config_pb2, which exists"
)
# Full name of a module or class -> why it is not there, and the replacement.
MISSING = {
    f"{_POPLAR}.driver.trace_pb2": _EVENTS,
    f"{_POPLAR}.driver.backend_config_pb2": _CONFIG,
    f"{_POPLAR}.driver.option_flag_pb2": _CONFIG,
    f"{_POPLAR}.driver.pipeline_config_pb2": (
        "Use ipu.pipelining_ops.PipelineSchedule and RecomputationMode"
    ),
    f"{_POPLAR}.driver.threestate_pb2": _CONFIG,
    f"{_POPLAR}.ops.gen_application_runtime": (
        f"{_RAW} ipu.embedded_runtime and ipu.application_compile_op"
    ),
    f"{_POPLAR}.ops.gen_functional_ops": f"{_RAW} ipu.functional_ops.outlined_function",
    f"{_POPLAR}.ops.gen_internal_ops": f"{_RAW} ipu.internal_ops",
    f"{_POPLAR}.ops.gen_popfloat_ops": f"{_RAW} ipu.f8_ops, or tf.quantization",
    f"{_POPLAR}.ops.gen_popnn_ops": (
        f"{_RAW} ipu.nn_ops, ipu.normalization_ops, and ipu.keras.layers.PopnnLSTM and "
        "PopnnGRU"
    ),
    f"{_POPLAR}.ops.gen_popops_ops": (
        f"{_RAW} ipu.cross_replica_ops, ipu.all_to_all_op, ipu.reduce_scatter_op, "
        "ipu.embedding_ops, ipu.slicing_ops and ipu.statistics_ops"
    ),
    f"{_POPLAR}.ops.gen_poprand_ops": (
        f"{_RAW} ipu.rand_ops.dropout and tf.random, which ipu.utils.reset_ipu_seed "
        "makes repeatable"
    ),
    f"{_POPLAR}.ops.gen_sendrecv_ops": (
        f"{_RAW} ipu.scopes.outside_compilation_scope for operations of the host, and "
        "the queues of ipu.ipu_infeed_queue and ipu.ipu_outfeed_queue for tensors"
    ),
    f"{_POPLAR}.tests": _TESTS,
    f"{_POPLAR}.tests.test_utils": _TESTS,
    f"{_IPU}.test_utils": _TESTS,
    f"{_IPU}.variables": "Make a tf.Variable in the scope of an IPUStrategy",
}
