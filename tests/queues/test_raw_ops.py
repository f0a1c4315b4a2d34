"""Ops of ipufeed that are called by hand: a wrong rank is an error, not a crash."""

import re

import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from ipufeed import _native
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

# Of the library, not of its sources: they are not there where a wheel is installed.
OPS = sorted(op.name for op in _native.load()._definitions.values())
# Inputs that may be of any rank.
ANY_RANK = {("IpufeedNameErrorsDataset", "names")}
# Inputs that must be vectors of two.
VECTORS = {"own", "seed", "shape", "started"}
# Run in compiled programs only: their shapes are checked where a graph is built.
COMPILED_ONLY = {
    "IpufeedPipeline",
    "IpufeedSend",
    "IpufeedReceive",
    "IpufeedStageEnters",
    "IpufeedStageBegins",
    "IpufeedStageEnds",
}


def snake(name):
    """IpufeedOutfeedLast -> ipufeed_outfeed_last."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def right_value(argument, rank=None):
    """A value for an input; of another rank if one is given."""
    shape = [2] * (rank or 0)
    if argument.type_list_attr:
        return [tf.zeros([2])]
    if argument.type_attr:
        return tf.zeros(shape, tf.int32)
    if argument.type == types_pb2.DT_VARIANT:
        variant = tf.data.Dataset.range(3)._variant_tensor
        for size in shape:
            variant = tf.stack([variant] * size)
        return variant
    if argument.type == types_pb2.DT_RESOURCE:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="raw")
        for size in shape:
            handle = tf.stack([handle] * size)
        return handle
    dtype = tf.as_dtype(argument.type)
    if dtype == tf.string:
        return tf.fill(shape, "x")
    if argument.name in VECTORS and rank is None:
        shape = [2]
    return tf.zeros(shape, dtype)


@tf.function
def _stage(x):
    return x


ATTRIBUTES = {
    "dtypes": [tf.float32],
    "shapes": [[2]],
    "output_types": [tf.int64],
    "output_shapes": [[]],
    "result_types": [tf.float32],
    "result_shapes": [[2]],
    "type": tf.float32,
    "shape": [2],
    "string": "x",
    "int": 1,
    "bool": True,
    "list(int)": [0],
    "list(string)": ["x"],
}


def attributes_of(definition):
    """Values for the attributes that have no default and follow from no input."""
    inferred = {
        each
        for argument in definition.input_arg
        for each in (argument.type_attr, argument.type_list_attr, argument.number_attr)
    }
    values = {}
    for attribute in definition.attr:
        if attribute.name in inferred or attribute.HasField("default_value"):
            continue
        if attribute.type == "list(func)":
            values[attribute.name] = [_stage.get_concrete_function(tf.TensorSpec([2]))]
        elif attribute.name in ATTRIBUTES:
            values[attribute.name] = ATTRIBUTES[attribute.name]
        else:
            values[attribute.name] = ATTRIBUTES[attribute.type]
    return values


def scalar_inputs():
    """(op, input) for each input that must be a scalar, or a vector."""
    _native.load()
    return [
        (op, argument.name)
        for op in OPS
        for argument in op_def_registry.get(op).input_arg
        if not argument.type_list_attr
        and not argument.type_attr
        and (op, argument.name) not in ANY_RANK
    ]


def call(op, wrong="", rank=None):
    """Calls the op; the input that is named is of this rank."""
    definition = op_def_registry.get(op)
    inputs = {
        argument.name: right_value(argument, rank if argument.name == wrong else None)
        for argument in definition.input_arg
    }
    inputs = {name.lower(): value for name, value in inputs.items()}
    with tf.device("/device:CPU:0"):
        return getattr(_native.load(), snake(op))(**inputs, **attributes_of(definition))


def test_the_ops_are_found():
    """And registered, each of them."""
    assert len(OPS) > 20
    assert all(op_def_registry.get(op) is not None for op in OPS)
    assert len({op for op, _ in scalar_inputs()}) > 15


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("op", "name"), scalar_inputs())
def test_an_input_of_a_wrong_rank_is_refused(op, name, rank):
    """By the kernel, since nothing else looks in eager mode; by the graph's builder too."""
    if name in VECTORS and rank == 1:
        rank = 4
    if op not in COMPILED_ONLY:
        with pytest.raises(tf.errors.InvalidArgumentError):
            call(op, name, rank)
    if op_def_registry.get(op).input_arg[0].type == types_pb2.DT_VARIANT:
        return  # TensorFlow's own datasets are not looked at in a graph, either
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"(?i)rank|scalar"):
        call(op, name, rank)


@pytest.mark.parametrize("op", sorted(COMPILED_ONLY - {"IpufeedPipeline"}))
def test_what_runs_compiled_only_is_refused_with_the_reason(op):
    """Whatever it is given. Functions are not attributes in eager mode: no pipeline."""
    with pytest.raises(tf.errors.UnimplementedError, match="compiled programs only"):
        call(op)


UNKNOWN = tf.TensorSpec(None, tf.int64)
TOKEN = tf.TensorSpec(None, tf.uint32)


def lowered(function, *specs):
    """Compiled for an IPU, with inputs whose rank is known only when it runs."""
    compiled = tf.function(function, input_signature=specs, jit_compile=True)

    def run(*values):
        with tf.device("/device:IPU:0"):
            return compiled(*values)

    return run


def test_a_wrong_rank_is_refused_when_a_program_is_compiled():
    """Where the ranks are known no earlier."""
    ops = _native.load()
    one, many = tf.constant(1, tf.int64), tf.constant([1, 2], tf.int64)
    token, tokens = tf.constant(0, tf.uint32), tf.constant([0, 0], tf.uint32)
    signature = {"dtypes": [tf.float32], "shapes": [[2]]}
    clock = lowered(ops.ipufeed_clock, TOKEN)
    step = lowered(ops.ipufeed_step, UNKNOWN, TOKEN)
    count = lowered(lambda n: ops.ipufeed_repeat_count(n, mini_batches=2), UNKNOWN)
    enqueue = lowered(
        lambda f, t: ops.ipufeed_enqueue([tf.zeros([2])], f, t), UNKNOWN, TOKEN
    )
    dequeue = lowered(
        lambda f, t: ops.ipufeed_dequeue(f, t, **signature), UNKNOWN, TOKEN
    )
    depth = lowered(
        lambda n: ops.ipufeed_pipeline_count(n, multiple=1, least=0, most=9), UNKNOWN
    )
    collective = lowered(
        lambda t: ops.ipufeed_collective([tf.zeros([2])], t, collective=0), TOKEN
    )
    for run, values in (
        (clock, [tokens]),
        (step, [many, token]),
        (step, [one, tokens]),
        (count, [many]),
        (enqueue, [many, token]),
        (enqueue, [one, tokens]),
        (dequeue, [many, token]),
        (dequeue, [one, tokens]),
        (depth, [many]),
        (collective, [tokens]),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be a scalar"):
            run(*values)


@pytest.mark.parametrize(
    "attributes",
    [
        {"collective": 6},
        {"collective": 99},
        {"collective": -1},
        {"collective": 0, "reduction": 4},
        {"collective": 3, "replicas": 0},
        {"collective": 2, "replicas": -1},
        {"collective": 2, "replicas": 2**62},
        {"collective": 3, "replicas": 2**63 - 1},
        {"collective": 0, "group": -1},
    ],
)
def test_a_collective_of_wrong_numbers_is_refused(attributes):
    """None of them divides by zero, or makes a shape that overflows."""
    with pytest.raises(tf.errors.OpError):
        _native.load().ipufeed_collective(
            [tf.zeros([4])], tf.constant(0, tf.uint32), **attributes
        )


@pytest.mark.parametrize("mini_batches", [0, -1])
def test_no_mini_batches_are_refused(mini_batches):
    """A loop's count is divided by their number."""
    with pytest.raises(tf.errors.InvalidArgumentError):
        _native.load().ipufeed_repeat_count(4, mini_batches=mini_batches)


def test_texts_are_not_moved_as_bytes():
    """A string tensor is not memory that could be copied."""
    ops, text = _native.load(), tf.constant(["a string that is long enough"])
    token = tf.constant(0, tf.uint32)
    queue = IPUOutfeedQueue()
    number = tf.constant(queue._number, tf.int64)
    for run in (
        lambda: ops.ipufeed_remote(text, number=0, stores=True),
        lambda: ops.ipufeed_collective([text], token, collective=0),
        lambda: ops.ipufeed_enqueue([text], number, token),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="string"):
            run()


@pytest.mark.parametrize(
    ("dtypes", "shapes"),
    [
        ([tf.int32], [[2]]),
        ([tf.float32], [[3]]),
        ([tf.float32], [[2, 1]]),
        ([tf.float32] * 2, [[2]] * 2),
        ([tf.float32], [[2]] * 3),
        ([], []),
    ],
)
@pytest.mark.parametrize("jit", [True, False])
def test_a_dequeue_of_other_elements_is_refused_and_takes_none(jit, dtypes, shapes):
    """Fewer outputs than the element has tensors, more, or others of the same size."""
    infeed = IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices([[1.0, 2.0], [3.0, 4.0]])
    )
    _ = infeed.initializer
    ops = _native.load()

    def program(dtypes, shapes):
        @tf.function(jit_compile=jit)
        def dequeue(number):
            token = tf.constant(0, tf.uint32)
            components, _ = ops.ipufeed_dequeue(
                number, token, dtypes=dtypes, shapes=shapes
            )
            return components

        with tf.device("/device:IPU:0"):
            return dequeue(tf.constant(infeed._number, tf.int64))

    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError),
        match=r"for another infeed|`dtypes` and `shapes`|minimum (length )?1",
    ):
        program(dtypes, shapes)

    assert program([tf.float32], [[2]])[0].numpy().tolist() == [1.0, 2.0]
    _ = infeed.deleter


@pytest.mark.parametrize(
    "attributes",
    [
        {"capacity": 2**40},
        {"capacity": 2**62},
        {"ordinal": -1},
        {"ordinal": 16},
        {"threads": 2**40},
        {"dtypes": [tf.float32, tf.float32]},
    ],
)
def test_an_infeed_of_wrong_numbers_is_refused(attributes):
    """Before a thread starts or a ring is allocated."""
    arguments = {"dtypes": [tf.float32], "shapes": [[]], **attributes}
    (name,) = attributes
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"`{name}`"):
        _native.load().ipufeed_infeed_create(
            tf.data.Dataset.from_tensors(1.0)._variant_tensor,
            number=10**9,
            feed_id="x",
            **arguments,
        )


def test_elements_of_another_dtype_than_declared_are_refused():
    """Of the same size: the bytes would fit."""
    ops = _native.load()
    ops.ipufeed_infeed_create(
        tf.data.Dataset.from_tensors(1.0)._variant_tensor,
        number=10**9 + 1,
        feed_id="liar",
        dtypes=[tf.int32],
        shapes=[[]],
    )

    @tf.function(jit_compile=True)
    def dequeue(number):
        token = tf.constant(0, tf.uint32)
        return ops.ipufeed_dequeue(number, token, dtypes=[tf.int32], shapes=[[]])[0]

    with (
        tf.device("/device:IPU:0"),
        pytest.raises(
            tf.errors.InvalidArgumentError, match="'liar' has the dtype float"
        ),
    ):
        dequeue(tf.constant(10**9 + 1, tf.int64))
    ops.ipufeed_infeed_delete(number=10**9 + 1)
