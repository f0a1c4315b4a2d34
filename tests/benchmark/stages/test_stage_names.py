"""Names of stages, from nodes that were made up."""

import pytest
import tensorflow as tf

from ipufeed.benchmark.graph.pipeline_graph import step_of


@pytest.mark.parametrize(
    ("op", "functions"),
    [("DataServiceDatasetV4", {}), ("ParallelMapDatasetV2", {"f": "g"})],
)
def test_what_decompresses_behind_a_data_service_does_not_name_it(op, functions):
    """It receives; TensorFlow puts a map behind it, which calls that function."""
    key = "f" if functions else "uncompress_fn"
    node = tf.compat.v1.NodeDef(name="n", op=op)
    node.attr[key].func.name = "g"

    assert step_of(node, []).functions == functions
