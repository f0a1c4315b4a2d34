"""Arguments of a function that returns the dataset, from `--set`."""

import enum
from pathlib import Path
from typing import Annotated, Literal, Optional

import pytest
import tensorflow as tf
from written_files import HEAD, elements

from ipufeed.benchmark.load import dataset_file
from ipufeed.errors import DatasetFileError
from ipufeed.sources.loaders.kinds import kind_of


class Split(enum.Enum):
    TRAIN = "training"
    TEST = "testing"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@pytest.fixture
def call():
    """Calls a factory as `find_dataset` does, with values as they were typed."""

    def call(factory, **values):
        texts = {
            name: value if isinstance(value, str) else repr(value)
            for name, value in values.items()
        }
        return dataset_file.call_factory(factory, factory.__name__, texts, "f.py")

    return call


# ---- Arguments of a factory ----


def test_values_for_a_dataset_are_refused(find):
    """The message has the factory that would take them."""
    with pytest.raises(DatasetFileError) as refused:
        find("dataset = range_(1)", a=1, b=2)

    assert (
        str(refused.value)
        == "--set needs a factory to give the values to, and `dataset` in pipeline.py is a "
        "dataset. Define `def make_dataset(a, b): ...`."
    )


def test_a_value_that_the_factory_does_not_take_is_refused(call):
    """The message has the names that it does take."""

    def make_dataset(batch_size, *rest, shuffle=True): ...

    with pytest.raises(DatasetFileError) as refused:
        call(make_dataset, batchsize=3)

    assert (
        str(refused.value)
        == "make_dataset() in f.py takes no `batchsize`. It takes: batch_size, shuffle."
    )


def test_a_value_for_a_factory_without_arguments_is_refused(call):
    """`no arguments` stands where the names would."""

    def make_dataset(): ...

    with pytest.raises(DatasetFileError) as refused:
        call(make_dataset, a=3)

    assert (
        str(refused.value)
        == "make_dataset() in f.py takes no `a`. It takes: no arguments."
    )


def test_arguments_that_are_missing_are_refused_with_the_options_to_give(call):
    """All of them at once, ready to be copied."""

    def make_dataset(path, size, batch_size=3): ...

    with pytest.raises(DatasetFileError) as refused:
        call(make_dataset, batch_size=3)

    assert (
        str(refused.value)
        == "make_dataset() in f.py needs `path`, `size`. Give --set path=VALUE --set "
        "size=VALUE."
    )


def test_a_factory_is_given_values_of_every_kind_of_parameter(call):
    """Positional-only, keyword-only and `**` parameters are all reached."""
    seen = []

    def make_dataset(a, /, b, *, c, **rest):
        seen.append((a, b, c, rest))
        return tf.data.Dataset.range(1)

    call(make_dataset, d=4, c=3, b=2, a=1)

    assert seen == [(1, 2, 3, {"d": 4})]


def test_a_value_for_the_second_of_two_positional_parameters_goes_there(call):
    """A positional-only parameter that keeps its default does not shift the others."""
    seen = []

    def make_dataset(a=1, b=2, /):
        seen.append((a, b))
        return tf.data.Dataset.range(1)

    call(make_dataset, b=5)

    assert seen == [(1, 5)]


def test_a_number_for_a_parameter_of_text_is_text(call):
    """By the annotation or by the default, `--set split=1` is the text "1"."""
    seen = []

    def make_dataset(a: str, b="train", c=0, d: "str" = ""):
        seen.append((a, b, c, d))
        return tf.data.Dataset.range(1)

    call(make_dataset, **dataset_file.parse_assignments(["a=1", "b=2", "c=3", "d=4"]))

    assert seen == [("1", "2", 3, "4")]


@pytest.mark.parametrize("text", ["007", "1.50", "1e3", "0x10", "True", "[1]"])
def test_text_for_a_parameter_of_text_stays_as_it_was_typed(call, text):
    """A file called 007 is not looked for under 7, nor one called 1.50 under 1.5."""
    seen = []

    def make_dataset(path: str):
        seen.append(path)
        return tf.data.Dataset.range(1)

    call(make_dataset, **dataset_file.parse_assignments([f"path={text}"]))

    assert [text] == seen


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (bool, "false", False),
        (bool, "No", False),
        (bool, "OFF", False),
        (bool, "0", False),
        (bool, "True", True),
        (bool, "yes", True),
        (bool, "on", True),
        (bool, "1", True),
        (int, "64", 64),
        (int, "007", 7),
        (int, "0x10", 16),
        (int, "-1", -1),
        (float, "3", 3.0),
        (float, "1e-3", 0.001),
        (float, "inf", float("inf")),
        (int | None, "none", None),
        (Optional[bool], "false", False),  # noqa: UP045, as older files write it
        ("bool", "off", False),
        ("bool | None", "None", None),
        (bool | int, "1", 1),
        (int | float, "2", 2),
        (int | float, "2.5", 2.5),
        (str | None, "123", "123"),
        (str | None, "none", None),
        (Path, "2024", Path("2024")),
        (Path | None, "data", Path("data")),
        (Path | None, "None", None),
        (Annotated[int, "rows"], "7", 7),
        (Literal["1", "2"], "1", "1"),
        (Literal[1, 2], "2", 2),
        (Literal["a"] | None, "none", None),
        (Split, "TEST", Split.TEST),
        (Split, "testing", Split.TEST),
        (Level | None, "2", Level.HIGH),
        (list[int], "[3, 4]", [3, 4]),
        ({"not": "hashable"}, "3", 3),
    ],
)
def test_an_annotation_decides_what_a_text_means(call, annotation, text, value):
    """`--set shuffle=false` must not become a text, which is true."""
    seen = []

    def make_dataset(parameter):
        seen.append(parameter)
        return tf.data.Dataset.range(1)

    make_dataset.__annotations__["parameter"] = annotation
    call(make_dataset, parameter=text)

    assert [(type(value), value)] == [(type(each), each) for each in seen]


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (bool, "maybe", r"`p` must be a bool \(true or false, .* got str 'maybe'\."),
        (bool, "2", r"`p` must be a bool .* got int 2\."),
        (int, "1.5", r"`p` must be an int, got float 1\.5\."),
        (int, "true", r"`p` must be an int, got str 'true'\."),
        (float, "fast", r"`p` must be a float, got str 'fast'\."),
        (int | None, "many", r"`p` must be an int or none, got str 'many'\."),
        (Annotated[int, "rows"], "many", r"`p` must be an int, got str 'many'\."),
        (Literal["a", 1], "b", r"`p` must be a or 1, got 'b'\."),
        (Split | None, "all", r"`p` must be TRAIN or TEST or none, got 'all'\."),
    ],
)
def test_a_text_that_an_annotation_does_not_allow_is_refused(
    call, annotation, text, message
):
    """By the parameter's name, with its type and the value, before anything is called."""

    def make_dataset(p):
        raise AssertionError("it was called")

    make_dataset.__annotations__["p"] = annotation

    with pytest.raises(DatasetFileError, match=message):
        call(make_dataset, p=text)


def test_a_bool_for_a_default_decides_what_a_text_means_as_well(call):
    """Most files have no annotations; what is not such a word keeps its own meaning."""
    seen = []

    def make_dataset(shuffle=True, cache=False, repeat=True):
        seen.append((shuffle, cache, repeat))
        return tf.data.Dataset.range(1)

    call(make_dataset, shuffle="false", cache="Yes", repeat="1000")

    assert seen == [(False, True, 1000)]


def test_a_path_and_an_enum_for_a_default_decide_as_well(call):
    seen = []

    def make_dataset(folder=Path("data"), split=Split.TRAIN):
        seen.append((folder, split))
        return tf.data.Dataset.range(1)

    call(make_dataset, folder="2024", split="TEST")

    assert seen == [(Path("2024"), Split.TEST)]


def test_annotations_that_cannot_be_evaluated_are_read_as_they_stand(find):
    """A name that is there for type checkers only does not spoil the others."""
    text = (
        "def make_dataset(n: 'int', path: 'Path', flag: 'bool' = True):\n"
        "    return range_(n if flag is False else 0)"
    )

    assert elements(find(text, n="2", path="x", flag="off")[0]) == [0, 1]


def test_a_factory_next_to_a_dataset_is_passed_over_with_a_note(tmp_path):
    """Only under a usual name: other functions that return datasets are helpers."""
    path = tmp_path / "pipeline.py"
    path.write_text(HEAD + "def make_dataset(): ...\ntrain = range_(2)")
    other = tmp_path / "other.py"
    other.write_text(HEAD + "def f() -> 'Dataset': ...\ntrain = range_(2)")
    notes = []

    dataset_file.find_dataset(
        dataset_file.run_file(path), None, {}, "p.py", notes.append
    )
    dataset_file.find_dataset(
        dataset_file.run_file(path), "train", {}, "p.py", notes.append
    )
    dataset_file.find_dataset(
        dataset_file.run_file(other), None, {}, "o.py", notes.append
    )

    assert notes == [
        "p.py has make_dataset() as well: measuring `train`. For the other name it: "
        "p.py:make_dataset."
    ]


def test_what_a_factory_returns_must_be_a_dataset(call):
    """The message says what came instead."""

    def make_dataset():
        return 1

    with pytest.raises(DatasetFileError) as refused:
        call(make_dataset)

    assert (
        str(refused.value)
        == "make_dataset() in f.py must return a tf.data.Dataset or a loader that can be "
        "iterated, got int."
    )


def test_a_factory_may_return_a_generator_function(call):
    """Each pass calls it again, as one that is called `loader`."""

    def make_loader():
        def elements():
            yield from range(3)

        return elements

    kind = kind_of(call(make_loader))
    for _ in range(2):
        with kind.open() as elements:
            assert list(elements) == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "dataset = [1, 2]",
            r"`dataset` in pipeline.py .* got list. .*from_tensor_slices",
        ),
        ("dataset = iter(range_(3))", r"got OwnedIterator. Define the dataset that"),
        (
            "def make_dataset(): return range_(3).as_numpy_iterator()",
            r"got NumpyIterator. Define the dataset that",
        ),
        ("def make_dataset(): pass", r"got NoneType. Is a `return` missing\?"),
        ("async def make_dataset(): pass", r"got coroutine. .* without `async`"),
    ],
)
def test_what_is_not_a_dataset_is_refused_with_advice(find, text, advice):
    """The message says what it got, and how to make a dataset of it."""
    with pytest.raises(DatasetFileError, match=advice):
        find(text)


def test_what_a_factory_raises_is_passed_on(call):
    """A TypeError of its own is not taken for wrong arguments."""

    def make_dataset():
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        call(make_dataset)
