"""Datasets and variables in files, and datasets of whole groups."""

import contextlib
import re

import numpy as np
import pytest
import tensorflow as tf
from replicated import on
from styles import only

from ipufeed.programs.buffer_dataset import BufferDataset
from ipufeed.programs.dataset_extractor import (
    dataset_extractor,
    export_dataset_to_file,
    export_inputs_to_file,
    export_variables,
    get_variable_handles,
    import_variables,
)
from ipufeed.queues import IPUInfeedQueue

v1 = tf.compat.v1


def pairs(number=5):
    return tf.data.Dataset.from_tensor_slices(
        (np.arange(2 * number, dtype=np.float32).reshape(number, 2), np.arange(number))
    )


@pytest.mark.parametrize("style", ["graph", "eager"])
def test_elements_are_written_by_component(style, tmp_path):
    """Stacked, as many as requested."""
    name = str(tmp_path / "data")
    if style == "eager":
        paths = dataset_extractor(pairs(), 3, name, "mine")
        assert paths == [f"{name}.mine.0.npy", f"{name}.mine.1.npy"]
    else:
        with tf.Graph().as_default(), v1.Session() as session:
            session.run(dataset_extractor(pairs(), 3, name, "mine"))

    np.testing.assert_array_equal(
        np.load(f"{name}.mine.0.npy"), np.arange(6.0).reshape(3, 2)
    )
    np.testing.assert_array_equal(np.load(f"{name}.mine.1.npy"), [0, 1, 2])


@pytest.mark.parametrize("style", ["graph", "eager"])
def test_a_dataset_that_is_too_short_leaves_no_file(style, tmp_path):
    """It ends with an OutOfRangeError."""

    def extract():
        if style == "eager":
            dataset_extractor(pairs(2), 3, str(tmp_path / "data"))
            return
        with tf.Graph().as_default(), v1.Session() as session:
            session.run(dataset_extractor(pairs(2), 3, str(tmp_path / "data")))

    with pytest.raises(tf.errors.OutOfRangeError):
        extract()

    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_are_raised(tmp_path):
    """The original returned them."""
    with pytest.raises(ValueError, match="Expected `num_elements` to be at least 1"):
        dataset_extractor(pairs(), 0, "x")
    with pytest.raises(TypeError, match=r"must be a tf.data.Dataset, got list"):
        dataset_extractor([1], 1, "x")


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        (3, TypeError, "`feed_name` must be a str or None, got int 3."),
        (False, TypeError, "`feed_name` must be a str or None, got bool False."),
        (b"x", TypeError, "`feed_name` must be a str or None, got bytes b'x'."),
        ("a/b", ValueError, "without '/' and NUL, got 'a/b'."),
        ("a\0b", ValueError, "without '/' and NUL, got 'a\\x00b'."),
    ],
)
@pytest.mark.parametrize("style", ["graph", "eager"])
@pytest.mark.parametrize(
    "export",
    [
        lambda path, name: dataset_extractor(pairs(), 1, path, name),
        lambda path, name: export_dataset_to_file(pairs(), path, 1, name),
        lambda path, name: export_dataset_to_file(
            IPUInfeedQueue(pairs()), path, 1, name
        ),
    ],
    ids=["extractor", "dataset", "infeed"],
)
def test_a_feed_name_must_be_a_part_of_a_file_name(
    export, style, name, error, text, tmp_path
):
    """It is refused by its name, in a graph when the operation is built."""
    graph = tf.Graph().as_default() if style == "graph" else contextlib.nullcontext()
    with graph, pytest.raises(error, match=re.escape(text)):
        export(str(tmp_path / "data"), name)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("style", ["graph", "eager"])
def test_variables_come_back_by_name(style, tmp_path):
    """Of each dtype, with their values."""
    name = str(tmp_path / "weights")
    values = [np.float32([1.5, 2]), np.float16(3), np.int32([[4]])]

    def made(numbers):
        return [
            tf.Variable(value, name=f"v{place}") for place, value in enumerate(numbers)
        ]

    if style == "eager":
        first = made(values)
        assert export_variables(first, ["v0", "v1", "v2"], name) == f"{name}.npz"
        second = made([np.zeros_like(each) for each in values])
        assert import_variables(second, name) is None
        found = [each.numpy() for each in second]
    else:
        with tf.Graph().as_default(), v1.Session() as session:
            first = [v1.Variable(each, use_resource=True) for each in values]
            session.run(v1.global_variables_initializer())
            session.run(export_variables(first, ["v0", "v1", "v2"], name))
        with tf.Graph().as_default(), v1.Session() as session:
            second = [
                v1.get_variable(
                    f"v{place}", initializer=np.zeros_like(each), use_resource=True
                )
                for place, each in enumerate(values)
            ]
            session.run(v1.global_variables_initializer())
            session.run(import_variables(second, [f"{name}.npz"]))
            found = session.run(second)

    for one, other in zip(values, found, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@pytest.mark.parametrize("style", ["graph", "eager"])
def test_bfloat16_and_texts_are_written_as_numbers_and_texts(style, tmp_path):
    """NumPy's files have no bfloat16, so they hold float32."""
    name = str(tmp_path / "data")
    with contextlib.ExitStack() as stack:
        if style == "graph":
            stack.enter_context(tf.Graph().as_default())
            run = stack.enter_context(v1.Session()).run
        dataset = tf.data.Dataset.range(3).map(
            lambda i: (tf.cast(i, tf.bfloat16) / 2, tf.strings.as_string([i, i + 1]))
        )
        written = dataset_extractor(dataset, 3, name)
        if style == "graph":
            run(written)
    assert np.load(f"{name}.infeed.0.npy").tolist() == [0, 0.5, 1]
    texts = np.load(f"{name}.infeed.1.npy")
    assert texts.tolist() == [[b"0", b"1"], [b"1", b"2"], [b"2", b"3"]]


def test_a_variable_of_bfloat16_comes_back(tmp_path):
    """From a path, which need not be a str; and a name of NumPy's own is a name."""
    variable = tf.Variable(tf.constant([1.5, -2.0], tf.bfloat16), name="file")
    export_variables([variable], ["file"], tmp_path / "values")
    variable.assign([0, 0])
    import_variables([variable], tmp_path / "values")
    assert variable.numpy().tolist() == [1.5, -2.0]


def test_a_value_must_fit_its_variable(tmp_path):
    """In shape and dtype: floats do not become ints."""
    export_variables([tf.Variable([1.5, 2.5])], ["a"], tmp_path / "values")
    for other in (tf.Variable([1, 2], name="a"), tf.Variable([1.0], name="a")):
        with pytest.raises(tf.errors.InvalidArgumentError, match="The variable a:0 is"):
            import_variables([other], str(tmp_path / "values"))
    with pytest.raises(ValueError, match="must have different names"):
        import_variables([other, other], str(tmp_path / "values"))


def test_files_that_cannot_be_are_refused(tmp_path):
    """Before a dataset is read; errors name the argument or the component."""
    one = [tf.Variable(1.0)]
    with pytest.raises(FileNotFoundError, match=r"make /\S*/no first"):
        export_variables(one, ["a"], tmp_path / "no" / "a")
    with pytest.raises(FileNotFoundError, match=r"make /\S*/~ first"):
        export_variables(one, ["a"], "~/a")  # as open() takes it
    for wrong in (
        lambda: export_variables(one, ["a"], 3),
        lambda: dataset_extractor(pairs(), 1, 3),
    ):
        with pytest.raises(TypeError, match="`filename` must be a str or a path, got"):
            wrong()
    with pytest.raises(TypeError, match="`variables` must be a list or tuple, got"):
        export_variables(one[0], ["a"], tmp_path / "a")
    with pytest.raises(TypeError, match=r"must be tf.Variables, got int 3"):
        export_variables([3], ["a"], tmp_path / "a")
    with pytest.raises(TypeError, match="`filenames` must be a path or a list of path"):
        import_variables(one, 3)
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="cannot be read as one"):
        import_variables(one, tmp_path / "bad.npz")
    numbers = tf.data.Dataset.range(3)
    with pytest.raises(
        ValueError, match=r"component 0 of .* have one shape, got \[0\]"
    ):
        dataset_extractor(numbers.map(lambda i: tf.zeros([i])), 2, tmp_path / "a")
    with pytest.raises(TypeError, match=r"got SparseTensorSpec\(.* as component 0"):
        dataset_extractor(
            numbers.map(lambda i: tf.sparse.from_dense([i])), 2, tmp_path / "a"
        )


def test_names_must_be_the_same_on_both_sides(tmp_path):
    """Unless `strict` is False: then what is there is read."""
    name = str(tmp_path / "weights")
    export_variables([tf.Variable(1.0), tf.Variable(2.0)], ["a", "b"], name)
    b, c = tf.Variable(0.0, name="b"), tf.Variable(0.0, name="c")

    with pytest.raises(tf.errors.InvalidArgumentError, match="on one side only: a, c"):
        import_variables([b, c], name)
    import_variables([b, c], name, strict=False)

    assert (float(b), float(c)) == (2.0, 0.0)


@pytest.mark.parametrize("style", ["graph", "eager"])
def test_a_handle_is_known_by_its_name(style):
    """One string of shape [1] for each variable."""
    if style == "eager":
        handles = get_variable_handles([tf.Variable(1.0, name="thisIsTheName")])
        (found,) = [each.numpy() for each in handles]
    else:
        with tf.Graph().as_default(), v1.Session() as session:
            variable = v1.get_variable("thisIsTheName", [], use_resource=True)
            (found,) = session.run(get_variable_handles([variable]))

    assert found.tolist() == [b"thisIsTheName"]


@pytest.mark.parametrize("structure", ["one", "pair", "dict"])
def test_a_buffer_dataset_has_whole_groups(structure):
    """Three elements in groups of two are two; the element is what it was."""
    dataset = {
        "one": tf.data.Dataset.range(3),
        "pair": pairs(3),
        "dict": pairs(3).map(lambda x, y: {"x": x, "y": y}),
    }[structure]
    buffered = BufferDataset(dataset, 2)

    assert isinstance(buffered, tf.data.Dataset)
    assert buffered.element_spec == dataset.element_spec
    assert len(buffered) == 2
    found, wanted = list(buffered), list(dataset.take(2))
    for one, other in zip(found, wanted, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    with pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero"):
        BufferDataset(dataset, 0)


@pytest.mark.usefixtures("clean_system")
@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("known", [True, False], ids=["length", "no length"])
def test_a_buffer_dataset_feeds_a_program(style, known):
    """Two groups of two of five elements, and then it ends, as any dataset does."""

    def make_dataset():
        dataset = tf.data.Dataset.range(5 if known else 6)
        if not known:
            dataset = dataset.filter(lambda i: i < 5)
        return BufferDataset(dataset.map(lambda i: tf.cast(i, tf.float32)), 2)

    with on(1, style) as ready:
        infeed = ready.feed(make_dataset)
        run = ready.build(
            lambda n: ready.repeat(n, lambda total, x: total + x, [0.0], infeed),
            np.int32(4),
        )
        assert only(run(np.int32(4))) == 0 + 1 + 2 + 3
        with pytest.raises(tf.errors.OutOfRangeError):
            run(np.int32(1))


def test_a_dataset_or_an_infeed_is_exported(tmp_path):
    """An infeed's elements are named by its id, and stay in it."""
    paths = export_dataset_to_file(pairs(), str(tmp_path / "data"), 2)
    assert paths == [f"{tmp_path}/data.infeed.{each}.npy" for each in (0, 1)]
    np.testing.assert_array_equal(np.load(paths[0]), [[0, 1], [2, 3]])

    infeed = IPUInfeedQueue(pairs().map(lambda x, _: x), _internal_id="mine")
    (path,) = export_dataset_to_file(infeed, str(tmp_path / "queue"), 3)
    assert path == f"{tmp_path}/queue.mine.0.npy"
    assert np.load(path).shape == (3, 2)
    with pytest.raises(
        TypeError, match=r"must be a tf\.data\.Dataset or an IPUInfeedQueue"
    ):
        export_dataset_to_file([1], str(tmp_path / "data"), 1)


def test_inputs_are_exported_by_their_names(tmp_path):
    """Of a graph the values that are fed; of eager mode the tensors' own."""
    with tf.Graph().as_default(), v1.Session():
        x = v1.placeholder(tf.float32, [2], name="x")
        path = export_inputs_to_file([x, x * 2], str(tmp_path / "a"), {x: [1.0, 2.0]})
    with np.load(path, allow_pickle=False) as file:
        assert file["x"].tolist() == [1.0, 2.0]
        assert file["mul"].tolist() == [2.0, 4.0]

    path = export_inputs_to_file([tf.constant([3, 4])], str(tmp_path / "b"), {})
    with np.load(path, allow_pickle=False) as file:
        assert file["input_0"].tolist() == [3, 4]
