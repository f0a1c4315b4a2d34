"""What a host embedding and a lookup take: ids, initial values, dtypes, rates."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.ops import host_embedding
from ipufeed.ops.embedding_ops import embedding_lookup
from ipufeed.ops.host_embedding import (
    HostEmbeddingOptimizerSpec,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1
START = np.zeros([12, 4], np.float32)


def test_wrong_arguments_are_refused():
    """In the original's words."""
    variable = tf.Variable(START)
    with pytest.raises(ValueError, match="embedding_tensor is not a tensorflow tensor"):
        host_embedding.HostEmbedding("a", START)
    with pytest.raises(ValueError, match="is not a HostEmbeddingOptimizerSpec or None"):
        host_embedding.HostEmbedding("a", variable, optimizer_spec=0.1)
    with pytest.raises(ValueError, match="Unknown partition strategy ROWS"):
        host_embedding.HostEmbedding("a", variable, "ROWS")
    with pytest.raises(NotImplementedError, match="__call__ is not supported"):
        host_embedding.HostEmbedding("a", variable)([1])
    with pytest.raises(ValueError, match=r"must be \[tokens, width\], .* got \(3,\)"):
        create_host_embedding("a", [3], tf.float32)
    with pytest.raises(
        ValueError, match="accumulation_factor must be at least 1, got 0"
    ):
        HostEmbeddingSGDGAOptimizerSpec(0.1, 0)
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match="requires a session when eager execution"),
        create_host_embedding("a", [3, 2], tf.float32).register(),
    ):
        pass


def test_ids_of_an_unknown_number_are_refused():
    """The error names the argument, and how its shape becomes known."""
    embedding = create_host_embedding("number", [3, 2], tf.float32)
    words = r"shape of `indices` must be fully defined, got \(None,\): use set_shape"

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def program(ids):
        return embedding.lookup(ids)

    with embedding.register(), pytest.raises(ValueError, match=words):
        program([0])


def test_what_is_not_a_session_is_refused():
    """Before the table is registered."""
    embedding = create_host_embedding("session", [3, 2], tf.float32)
    words = r"`session` must be a tf.compat.v1.Session, got str 's'"
    with pytest.raises(TypeError, match=words), embedding.register("s"):
        pass
    with embedding.register():
        pass


def test_a_refused_embedding_leaves_its_name_free():
    with tf.Graph().as_default():
        for wrong in ({"optimizer_spec": 0.1}, {"partition_strategy": "ROWS"}):
            with pytest.raises(ValueError, match=r"HostEmbedding|ROWS"):
                create_host_embedding("a", [3, 2], tf.float32, **wrong)
        assert create_host_embedding("a", [3, 2], tf.float32) is not None


ONES = np.ones([3, 2], np.float32)


def created(shape=(4, 2), dtype=tf.float32, **keywords):
    return lambda: create_host_embedding("a", shape, dtype, **keywords)


WRONG = {
    "of another shape": (
        created(initializer=ONES),
        ValueError,
        r"have the table's shape \(4, 2\), got \(3, 2\)",
    ),
    "that broadcasts": (created(initializer=[1.0, 2.0]), ValueError, r"got \(2,\)"),
    "that makes another shape": (
        created(initializer=lambda shape, dtype: tf.ones([1, 2], dtype)),
        ValueError,
        r"have the table's shape \(4, 2\), got \(1, 2\)",
    ),
    "a name": (created(initializer="zeros"), TypeError, "got str 'zeros'"),
    "bools": (created(initializer=ONES > 0), TypeError, "of numbers, got bool"),
    "float64": (
        created(dtype=tf.float64),
        TypeError,
        "must be one of float16, float32, int32, uint32, got float64",
    ),
    "a variable of float64": (
        lambda: host_embedding.HostEmbedding("a", tf.Variable(ONES.astype(np.float64))),
        TypeError,
        "must be one of float16, float32, int32, uint32, got float64",
    ),
    "a variable of rank 1": (
        lambda: host_embedding.HostEmbedding("a", tf.Variable([1.0, 2.0])),
        ValueError,
        r"must be \[tokens, width\], both at least 1, got \(2,\)",
    ),
    "no tokens": (created([0, 2]), ValueError, r"at least 1, got \(0, 2\)"),
    "a negative shape": (
        created([-1, 2]),
        ValueError,
        r"at least 1, got list \[-1, 2\]",
    ),
    "a shape in words": (created("4x2"), TypeError, "at least 1, got str '4x2'"),
    "a flag as the dtype": (created(dtype=True), TypeError, "uint32, got bool True"),
    "no dtype": (created(dtype=None), TypeError, "uint32, got NoneType None"),
    "an object": (
        created(initializer={}),
        ValueError,
        "`initializer` must be a tensor, or a value that converts to one, got dict {}",
    ),
    "several rates": (
        lambda: HostEmbeddingOptimizerSpec(np.zeros([2])),
        TypeError,
        "`learning_rate` must be a number, got ndarray",
    ),
    "no name": (
        lambda: create_host_embedding(5, [4, 2], tf.float32),
        TypeError,
        "name of a host embedding must be a str, got int 5",
    ),
    "a rate in words": (
        lambda: HostEmbeddingOptimizerSpec("0.1"),
        TypeError,
        "`learning_rate` must be a number, got str '0.1'",
    ),
    "an infinite rate": (
        lambda: HostEmbeddingOptimizerSpec(float("inf")),
        ValueError,
        "must be a finite number, got inf",
    ),
    "a factor of 2.5": (
        lambda: HostEmbeddingSGDGAOptimizerSpec(0.1, 2.5),
        TypeError,
        "`accumulation_factor` must be an int, got float 2.5",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_table_cannot_have_is_refused(name):
    """Before anything is created."""
    call, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        call()


def test_version_1_refuses_another_shape_too():
    """And takes a tensor, an object and a class as initializers."""
    with tf.Graph().as_default(), v1.Session() as session:
        with pytest.raises(ValueError, match=r"shape \(4, 2\), got \(3, 2\)"):
            created(initializer=ONES)()
        with pytest.raises(ValueError, match=r"shape \(4, 2\), got \(1, 2\)"):
            created(initializer=lambda shape, dtype: tf.ones([1, 2], dtype))()
        for number, initializer in enumerate(
            [v1.ones_initializer, v1.ones_initializer(), np.ones([4, 2])]
        ):
            embedding = create_host_embedding(
                f"table{number}", [4, 2], tf.float16, initializer=initializer
            )
            session.run(v1.global_variables_initializer())
            found = session.run(embedding.get_embedding_tensor())
            np.testing.assert_array_equal(found, np.ones([4, 2], np.float16))


@pytest.mark.parametrize("ids", [[1.7], ["a"], [True], np.zeros([0])])
def test_ids_that_are_not_integers_are_refused(ids):
    """Of a host embedding and of a table of the program; they were truncated."""
    embedding = created()()
    name = tf.convert_to_tensor(ids).dtype.name
    words = f"`indices` must be integers.*got {name}"
    with embedding.register(), pytest.raises(TypeError, match=words):
        embedding.lookup(ids)
    with pytest.raises(TypeError, match=f"`ids` must be integers, .* got {name}"):
        embedding_lookup(ONES, ids)


@pytest.mark.parametrize("jit", [True, None])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "int64", "uint64"])
def test_ids_of_each_integer_dtype_have_their_own_rows(dtype, jit):
    """Also where the dtype cannot hold the number of rows, or the ids are beyond 2^32."""
    rows = np.arange(300, dtype=np.float32)[:, None]
    largest = int(np.iinfo(dtype).max)
    ids = np.array([0, 100, largest], dtype)
    outside = largest >= 300
    embedding = created([300, 1], initializer=rows)()
    with embedding.register():
        found = tf.function(lambda: embedding.lookup(ids), jit_compile=jit)()
        if outside:
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="ids 0 to 299, got"
            ):
                embedding.lookup(ids, clip_indices=False)
    np.testing.assert_array_equal(found[:, 0], [0, 100, min(largest, 299)])
    found = tf.function(lambda: embedding_lookup(rows + 1, ids), jit_compile=jit)()
    np.testing.assert_array_equal(found[:, 0], [1, 101, 0 if outside else largest + 1])


def test_no_ids_give_an_empty_result():
    """An empty list, too, which TensorFlow makes a tensor of floats."""
    embedding = created()()
    with embedding.register():
        for ids in ([], np.zeros([0, 3], np.int32)):
            assert embedding.lookup(ids).shape == (*np.shape(ids), 2)
            assert embedding_lookup(ONES, ids).shape == (*np.shape(ids), 2)
