"""What the scopes promise: where ops go, and what is noted at them."""

import numpy as np
import pytest
import tensorflow as tf
from styles import only
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.python.framework.func_graph import FuncGraph

from ipufeed.device.program import scopes, sharding
from ipufeed.errors import DeviceOrdinalError

v1 = tf.compat.v1
PREFIX = "_ipufeed_"


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=["graph", "function"])
def tracing(request):
    """The graph of a version 1 program, or of a tf.function."""
    kind = tf.Graph if request.param == "graph" else lambda: FuncGraph("traced")
    with kind().as_default() as graph:
        yield graph


def note(op, name):
    """The attribute that a scope has noted at an op, or None."""
    try:
        return op.get_attr(PREFIX + name).decode()
    except ValueError:
        return None


@pytest.mark.parametrize("device", ["/device:IPU:2", "/IPU:2", "/ipu:2", "IPU:2"])
def test_ops_in_an_ipu_scope_are_on_that_ipu(graph, device):
    """However the device is spelled; behind the scope they are not."""
    with scopes.ipu_scope(device):
        inside = tf.constant(1.0)

    assert inside.op.device == "/device:IPU:2"
    assert tf.constant(1.0).op.device == ""


def test_variables_in_an_ipu_scope_are_resource_variables(graph):
    """Also those made in a scope of variables inside; and around it nothing changes."""
    v1.disable_resource_variables()
    try:
        with scopes.ipu_scope("/device:IPU:0"):
            plain = v1.get_variable("plain", [1])
            with v1.variable_scope("nested"):
                nested = v1.get_variable("nested", [1])
        outside = v1.get_variable("outside", [1])
    finally:
        v1.enable_resource_variables()

    assert [v.op.type for v in (plain, nested, outside)] == [
        "VarHandleOp",
        "VarHandleOp",
        "VariableV2",
    ]


def test_an_ipu_scope_keeps_the_scope_of_variables_around_it(graph):
    """Names go on, and reuse is kept."""
    with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
        with scopes.ipu_scope("/device:IPU:0"):
            first = v1.get_variable("weight", [1])
        with scopes.ipu_scope("/device:IPU:0"):
            second = v1.get_variable("weight", [1])

    assert first.name == "net/weight:0"
    assert first is second


def test_an_ipu_scope_works_in_eager_mode():
    """Tensors and variables are on the IPU."""
    with scopes.ipu_scope("/device:IPU:1"):
        tensor, variable = tf.constant(1.0) + 1.0, tf.Variable(1.0)

    assert tensor.device.endswith("/device:IPU:1")
    assert variable.device.endswith("/device:IPU:1")


@pytest.mark.parametrize("device", ["/cpu:0", "/device:GPU:0", "IPU", "", None, 0])
def test_what_names_no_ipu_is_refused(device):
    """With an example of what would."""
    with (
        pytest.raises(
            DeviceOrdinalError, match=r"must name an IPU, as in '/device:IPU:0"
        ),
        scopes.ipu_scope(device),
    ):
        pass


def test_an_ipu_that_does_not_exist_is_refused():
    """TensorFlow would place the ops on the CPU without a warning."""
    with (
        pytest.raises(ValueError, match=r"There is no /device:IPU:16: .* in \[0, 16\)"),
        scopes.ipu_scope("/device:IPU:16"),
    ):
        pass


def frontend(op):
    """The frontend attributes of an op, as TensorFlow's compiler reads them."""
    noted = op.node_def.attr.get("_XlaFrontendAttributes")
    if noted is None:
        return {}
    return dict(xla_data_pb2.FrontendAttributes.FromString(noted.s).map)


def test_frontend_attributes_are_noted_at_the_ops_inside(tracing):
    """All scopes' in one: the inner one's value wins, and the outer one's comes back."""
    with scopes.frontend_attribute("colour", "red"):
        first = tf.constant(1.0)
        with (
            scopes.frontend_attribute("colour", "blue", restore_to="ignored"),
            scopes.frontend_attribute("size", "big"),
        ):
            second = tf.constant(1.0)
        third = tf.constant(1.0)
    outside = tf.constant(1.0)

    assert scopes.FRONTEND_ATTRIBUTES_NAME == "_XlaFrontendAttributes"
    assert [frontend(tensor.op) for tensor in (first, second, third, outside)] == [
        {"colour": "red"},
        {"colour": "blue", "size": "big"},
        {"colour": "red"},
        {},
    ]


@pytest.mark.parametrize(
    ("scope", "name", "value", "after"),
    [
        (
            lambda: scopes.frontend_attribute("a", "b", restore_to="c"),
            *("a", "b", "c"),
        ),
        (
            lambda: scopes.stochastic_rounding(True),
            *("STOCHASTIC_ROUNDING", "THREESTATE_ON", "THREESTATE_UNDEFINED"),
        ),
        (
            lambda: scopes.stochastic_rounding(False),
            *("STOCHASTIC_ROUNDING", "THREESTATE_OFF", "THREESTATE_UNDEFINED"),
        ),
        (
            lambda: scopes.partials_type(tf.float16),
            *("PARTIALS_TYPE", "F16", "PRIMITIVE_TYPE_INVALID"),
        ),
        (
            lambda: scopes.partials_type(tf.float32),
            *("PARTIALS_TYPE", "F32", "PRIMITIVE_TYPE_INVALID"),
        ),
        (
            lambda: scopes.partials_type(np.float16),
            *("PARTIALS_TYPE", "F16", "PRIMITIVE_TYPE_INVALID"),
        ),
    ],
    ids=["any", "rounding", "no rounding", "half", "single", "NumPy's half"],
)
@pytest.mark.parametrize(
    "style", [("graph", "xla"), ("function", "xla")], indirect=True
)
def test_a_frontend_attribute_is_restored(style, scope, name, value, after):
    """After the scope ops have what is requested, and a program with it runs."""
    seen = []

    def net(x):
        with scope():
            inside = x * 2.0
        outside = inside + 1.0
        seen.extend([frontend(inside.op), frontend(outside.op)])
        return outside

    assert only(style.run(net, 1.0)) == 3.0
    assert seen == [{name: value}, {name: after}]


@pytest.mark.parametrize(
    ("scope", "name", "value"),
    [
        (lambda: scopes.ipu_jit_scope(3), "jit_scope", "3"),
        (lambda: scopes.ipu_shard(2), "shard", "2"),
        (lambda: scopes.ipu_shard([0, 1]), "shard", "0,1"),
    ],
    ids=["jit", "shard", "shards"],
)
def test_each_scope_notes_its_own_attribute(tracing, scope, name, value):
    """And only inside."""
    with scope():
        inside = tf.constant(1.0)

    assert note(inside.op, name) == value
    assert note(tf.constant(1.0).op, name) is None


def test_a_gradient_is_in_the_shard_of_its_op(graph):
    """And so is the gradient of the gradient; what has no shard says None."""
    x = tf.constant(3.0)
    with scopes.ipu_shard(1):
        y = x * x
    with scopes.ipu_shard(2):
        z = y * y
    (gradient,) = v1.gradients(z, x)
    (second,) = v1.gradients(gradient, x)

    def shards(prefix):
        names = [op.name for op in graph.get_operations() if op.name.startswith(prefix)]
        assert names
        return {
            tuple(sharding.get_sharding(graph.get_operation_by_name(name)) or ())
            for name in names
        }

    assert second is not None
    assert shards("gradients/mul_grad/Mul") == {(1,)}
    assert shards("gradients/mul_1_grad/Mul") == {(2,)}
    assert shards("gradients_1/gradients/mul_1_grad/Mul") == {(2,)}
    assert sharding.get_sharding(x.op) is None


def test_propagation_gives_a_shard_to_all_that_hangs_together(graph):
    """From inputs on, from results back; what stands apart keeps none."""
    before = tf.constant(1.0)
    with scopes.ipu_shard([1]):
        noted = before + 1.0
    after = tf.sqrt(noted)
    apart = tf.constant(5.0)

    sharding.propagate_sharding(graph)

    assert sharding.get_sharding(before.op) == [1]
    assert sharding.get_sharding(after.op) == [1]
    assert sharding.get_sharding(apart.op) is None
    with pytest.raises(TypeError, match=r"must be a tf.Operation, got str"):
        sharding.get_sharding("op")
    with pytest.raises(
        TypeError, match=r"`graph` must be a tf.Graph or None, got int 0"
    ):
        sharding.propagate_sharding(0)


@pytest.mark.parametrize(
    ("scope", "error", "words"),
    [
        (lambda: scopes.ipu_shard("0"), TypeError, "must be an int, got str '0'"),
        (lambda: scopes.ipu_shard([0, True]), TypeError, "must be an int, got bool"),
        (lambda: scopes.ipu_shard(-1), ValueError, "must be at least 0, got -1"),
        (
            lambda: scopes.partials_type(tf.int32),
            ValueError,
            "Only support float16, float32, provided int32",
        ),
        (
            lambda: scopes.frontend_attribute(1, "x"),
            TypeError,
            "`attribute_name` must be a str, got int 1",
        ),
        (
            lambda: scopes.frontend_attribute("a", None),
            TypeError,
            "`attribute_value` must be a str, got NoneType None",
        ),
        (
            lambda: scopes.frontend_attribute("a", "b", 5),
            TypeError,
            "`restore_to` must be a str or None, got int 5",
        ),
        (
            lambda: scopes.partials_type(True),
            ValueError,
            "Only support float16, float32, provided True",
        ),
        (lambda: scopes.ipu_shard([]), ValueError, "at least one shard, got none"),
        (lambda: scopes.ipu_shard(b"1"), TypeError, "must be an int, got bytes b'1'"),
        (lambda: scopes.ipu_shard({1: 2}), TypeError, "must be an int, got dict"),
        (
            lambda: scopes.ipu_shard(tf.constant([1, 2])),
            TypeError,
            "must be an int, got SymbolicTensor",
        ),
    ],
    ids=[
        *("text", "bool", "negative", "integer", "name", "value", "restore"),
        *("true", "none", "bytes", "dict", "tensor"),
    ],
)
def test_other_values_are_refused(tracing, scope, error, words):
    """When the scope is entered."""
    with pytest.raises(error, match=words), scope():
        pass


def test_scopes_that_note_attributes_do_nothing_in_eager_mode():
    """No op could keep them; the code inside runs."""
    with (
        scopes.frontend_attribute("a", "b"),
        scopes.ipu_shard(0),
        scopes.ipu_jit_scope(0),
        scopes.stochastic_rounding(True),
        scopes.partials_type(tf.float16),
    ):
        assert float(tf.constant(1.0) + 1.0) == 2.0


@pytest.mark.parametrize("index", [2**31, 2**32 + 1, 2**70, [0, 2**31]])
def test_a_shard_beyond_what_an_op_can_note_is_refused(index):
    """Larger ones would be cut to 32 bits somewhere below."""
    with (
        pytest.raises(ValueError, match="must be at most 2147483647, got"),
        scopes.ipu_shard(index),
    ):
        pass


def test_a_shard_is_in_the_attribute_that_xla_reads(tracing):
    """A serialised xla.OpSharding; XLA takes one IPU of an op."""
    from tensorflow.compiler.xla import xla_data_pb2

    with scopes.ipu_shard(2):
        one = tf.constant(1.0) * 2.0
    with scopes.ipu_shard([0, 1]):
        two = tf.split(tf.constant([1.0, 2.0]), 2)[0]
    sharding = xla_data_pb2.OpSharding.FromString(one.op.get_attr("_XlaSharding"))

    assert sharding.type == xla_data_pb2.OpSharding.MAXIMAL
    assert list(sharding.tile_assignment_devices) == [2]
    assert "_XlaSharding" not in two.op.node_def.attr


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (np.int32(2), [2]),
        (np.array(2), [2]),
        ((np.int64(0), 1), [0, 1]),
        (range(2), [0, 1]),
        (np.arange(2), [0, 1]),
    ],
    ids=["numpy", "scalar_array", "tuple", "range", "array"],
)
def test_a_shard_is_any_integer_and_shards_are_whatever_holds_them(
    graph, index, expected
):
    """As in Graphcore's scope, which makes a list of what can be iterated."""
    with scopes.ipu_shard(index):
        op = tf.constant(1.0).op

    assert sharding.get_sharding(op) == expected
