"""The rules of ipufeed/benchmark/load/dataset_file.py: which dataset of a file is measured.

In this process, without measuring anything; what the command makes of it is tested in
test_command.py.
"""

import sys
from pathlib import Path
from typing import Optional

import pytest
import tensorflow as tf

from ipufeed.benchmark.load import dataset_file
from ipufeed.errors import DatasetFileError

HEAD = "import tensorflow as tf\nrange_ = tf.data.Dataset.range\n"


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    """What run_file changes of the interpreter is taken back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def find(tmp_path):
    """Runs a file with this text, and returns what is found in it."""

    def find(text, name=None, *, file="pipeline.py", **values):
        path = tmp_path / file
        path.write_text(HEAD + text)
        return dataset_file.find_dataset(
            dataset_file.run_file(path), name, values, file
        )

    return find


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


def elements(dataset):
    return list(dataset.as_numpy_iterator())


# ---- FILE[:NAME] ----


def test_a_target_without_a_colon_is_a_file():
    """Nothing is split off where there is nothing to split."""
    assert dataset_file.split_target("data/set.py") == (Path("data/set.py"), None)


def test_a_target_names_what_follows_its_last_colon():
    """A folder may have a colon in its name."""
    assert dataset_file.split_target("a:b/set.py:train") == (
        Path("a:b/set.py"),
        "train",
    )


def test_a_file_that_is_there_wins_over_a_name(tmp_path, monkeypatch):
    """A file called `set.py:train` can be measured."""
    monkeypatch.chdir(tmp_path)
    Path("set.py:train").touch()

    assert dataset_file.split_target("set.py:train") == (Path("set.py:train"), None)


@pytest.mark.parametrize("name", ["", "1st", "a.b", "make()"])
def test_a_target_is_refused_when_what_follows_the_colon_is_no_name(name):
    """The message shows the target, its form, and what is wrong with it."""
    with pytest.raises(DatasetFileError) as refused:
        dataset_file.split_target(f"set.py:{name}")

    assert (
        str(refused.value)
        == f"`set.py:{name}` must be FILE.py or FILE.py:NAME, and {name!r} is not a name."
    )


# ---- --set NAME=VALUE ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64", 64),
        ("-1.5", -1.5),
        ("1e-3", 1e-3),
        ("True", True),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("'64'", "64"),
        ("train", "train"),
        ("a=b", "a=b"),
        ("", ""),
        ("/data/x y.tfrecord", "/data/x y.tfrecord"),
        ("__import__('os')", "__import__('os')"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_a_value_is_a_python_literal_or_else_text(text, expected):
    """Nothing is run to read a value, and no text is refused."""
    texts = dataset_file.parse_assignments([f"name={text}"])
    value = dataset_file.value_for("name", texts["name"], None)

    assert expected == value
    assert type(expected) is type(value)


def test_a_value_that_nests_too_deeply_is_text():
    """Python's own limits do not come through as errors."""
    text = "(" * 100_000

    assert text == dataset_file.value_for("name", text, None)


@pytest.mark.parametrize("assignment", ["batch_size", "=3", "batch-size=3", "1=2", ""])
def test_an_assignment_is_refused_unless_it_is_name_and_value(assignment):
    """The message shows the assignment and an example of a right one."""
    with pytest.raises(DatasetFileError) as refused:
        dataset_file.parse_assignments([assignment])

    assert (
        str(refused.value)
        == f"--set must be NAME=VALUE, got {assignment!r}: for example "
        "--set batch_size=64."
    )


def test_an_assignment_is_refused_when_its_name_comes_twice():
    """Neither of two values wins silently."""
    with pytest.raises(DatasetFileError, match=r"^--set a is given twice\.$"):
        dataset_file.parse_assignments(["a=1", "b=2", "a=1"])


# ---- Running the file ----


def test_a_file_is_run_as_python_runs_it(tmp_path):
    """Its folder comes first on sys.path, sys.argv is its own, __file__ is absolute."""
    (tmp_path / "neighbour_of_pipeline.py").write_text("value = 3")
    path = tmp_path / "pipeline.py"
    path.write_text("import sys, neighbour_of_pipeline\nargv = list(sys.argv)\n")

    module = dataset_file.run_file(path)

    assert module.neighbour_of_pipeline.value == 3
    assert str(tmp_path) == sys.path[0]
    assert [str(path)] == module.argv
    assert str(path) == module.__file__


def test_the_main_part_of_a_file_does_not_run(tmp_path):
    """`if __name__ == "__main__":` guards a training loop, not wanted here."""
    path = tmp_path / "pipeline.py"
    path.write_text("ran = __name__ == '__main__'")

    assert not dataset_file.run_file(path).ran


def test_a_file_can_define_dataclasses_and_pickle_them(tmp_path):
    """Both look the module up by its name."""
    path = tmp_path / "pipeline.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses, pickle, typing\n"
        "@dataclasses.dataclass\nclass Point:\n    x: typing.ClassVar[int] = 1\n"
        "    y: int = 2\n"
        "copy = pickle.loads(pickle.dumps(Point(5)))\n"
    )

    assert dataset_file.run_file(path).copy.y == 5


def test_a_file_does_not_inherit_our_future_statements(tmp_path):
    """Its annotations are what it wrote, not text."""
    path = tmp_path / "pipeline.py"
    path.write_text("def f() -> int: ...")

    assert int is dataset_file.run_file(path).f.__annotations__["return"]


def test_a_file_does_not_replace_a_module_of_the_same_name(tmp_path):
    """A dataset file may be called json.py."""
    import json

    path = tmp_path / "json.py"
    path.write_text("value = 1")
    module = dataset_file.run_file(path)

    assert module.value == 1
    assert json is sys.modules["json"]


def test_a_file_may_have_a_name_that_is_no_identifier(tmp_path):
    """`my-data set.py` is a file name like any other."""
    path = tmp_path / "my-data set.py"
    path.write_text("value = 1")

    assert dataset_file.run_file(path).value == 1


def test_a_file_may_be_encoded_as_it_says(tmp_path):
    """The coding line and the byte order mark count, as they do for Python."""
    path = tmp_path / "pipeline.py"
    path.write_bytes("# coding: latin-1\nvalue = 'é'".encode("latin-1"))
    other = tmp_path / "other.py"
    other.write_bytes(b"\xef\xbb\xbfvalue = '\xc3\xa9'")

    assert dataset_file.run_file(path).value == "é"
    assert dataset_file.run_file(other).value == "é"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def f(:", SyntaxError),
        ("raise ValueError('mine')", ValueError),
        ("raise SystemExit(3)", SystemExit),
        ("raise KeyboardInterrupt", KeyboardInterrupt),
    ],
)
def test_what_a_file_raises_is_passed_on(tmp_path, text, error):
    """It is not dressed up in an exception of ours."""
    path = tmp_path / "pipeline.py"
    path.write_text(text)

    with pytest.raises(error):
        dataset_file.run_file(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    """The message has the system's reason."""
    path = tmp_path / "gone.py"

    with pytest.raises(DatasetFileError) as refused:
        dataset_file.run_file(path)

    assert f"cannot read {path}: No such file or directory." == str(refused.value)


# ---- Which one ----


def test_the_only_dataset_is_found_under_any_name(find):
    """One that is alone need not be called `dataset`."""
    dataset, name = find("train = range_(3)")

    assert name == "train"
    assert elements(dataset) == [0, 1, 2]


def test_dataset_wins_over_all_others(find):
    """With several, the one that is called `dataset` is meant."""
    dataset, name = find("raw = range_(9)\ndataset = raw.take(2)\nlast = range_(1)")

    assert name == "dataset"
    assert elements(dataset) == [0, 1]


def test_a_dataset_with_an_underscore_is_private(find):
    """Steps on the way are not mistaken for the result."""
    _, name = find("_raw = range_(9)\ntrain = _raw.take(2)")

    assert name == "train"


def test_a_private_dataset_can_be_named(find):
    """A dataset that is named is meant."""
    dataset, name = find("_raw = range_(9)\ntrain = _raw.take(2)", "_raw")

    assert name == "_raw"
    assert len(elements(dataset)) == 9


def test_a_dataset_wins_over_a_factory(find):
    """A factory that the file has called already is not called again."""
    text = "def make_dataset(): raise ValueError\ntrain = range_(2)"

    assert find(text)[1] == "train"


@pytest.mark.parametrize("name", [*dataset_file.FACTORY_NAMES, "dataset"])
def test_a_function_with_a_known_name_is_a_factory(find, name):
    """The usual names work without an annotation."""
    dataset, found = find(f"def {name}(): return range_(2)")

    assert name == found
    assert elements(dataset) == [0, 1]


@pytest.mark.parametrize("annotation", ["tf.data.Dataset", "'Dataset'"])
def test_a_function_that_is_annotated_with_a_dataset_is_a_factory(find, annotation):
    """Any name does if the annotation says what is returned."""
    assert find(f"def ours() -> {annotation}: return range_(2)")[1] == "ours"


def test_a_function_that_is_neither_is_no_factory(find):
    """Helpers are not called to see what they return."""
    text = "def helper(): raise ValueError\ndef make_dataset(): return range_(2)"

    assert find(text)[1] == "make_dataset"


def test_a_factory_that_was_imported_is_not_the_files_own(find, tmp_path):
    """Only what the file itself defines is looked at."""
    (tmp_path / "helpers_of_pipeline.py").write_text("def get_dataset(): ...")
    text = "from helpers_of_pipeline import *\ndef make_dataset(): return range_(1)"

    assert find(text)[1] == "make_dataset"


@pytest.mark.parametrize(
    "text",
    [
        "import functools\n"
        "def build(n, m): return range_(n * m)\n"
        "make_dataset = functools.partial(build, 1, m=2)",
        "class Maker:\n"
        "    def __call__(self, n=2): return range_(n)\n"
        "make_dataset = Maker()",
        "def twice(function): return lambda *args: function(*args).repeat(2).take(2)\n"
        "@twice\n"
        "def make_dataset(): return range_(2)",
        "from contextlib import ContextDecorator\n"
        "class Log(ContextDecorator):\n"
        "    def __enter__(self): return self\n"
        "    def __exit__(self, *error): return False\n"
        "@Log()\n"
        "def make_dataset(): return range_(2)",
    ],
    ids=["partial", "object", "decorated", "decorated elsewhere"],
)
def test_whatever_can_be_called_is_a_factory_under_a_known_name(find, text):
    """Files keep their factories in other things than functions."""
    dataset, name = find(text)

    assert name == "make_dataset"
    assert elements(dataset) == [0, 1]


def test_a_class_is_no_factory(find):
    """What calling it gives is not a dataset."""
    with pytest.raises(DatasetFileError, match="has no dataset"):
        find("class make_dataset: pass")


def test_values_fit_what_a_partial_has_left_open(find):
    """It is asked what it takes, like a function."""
    text = (
        "import functools\n"
        "def build(n, m): return range_(n * m)\n"
        "make_dataset = functools.partial(build, 3)"
    )

    assert elements(find(text, m="2")[0]) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(DatasetFileError, match="needs `m`"):
        find(text)


def test_a_factory_that_was_imported_is_found_where_there_is_no_other(find, tmp_path):
    """A file may do nothing but name what a library has."""
    library = (
        "import tensorflow as tf\ndef get_dataset(): return tf.data.Dataset.range(2)"
    )
    (tmp_path / "library_of_pipeline.py").write_text(library)

    assert find("from library_of_pipeline import get_dataset")[1] == "get_dataset"


def test_any_function_can_be_named(find):
    """FILE:NAME overrules the rules for names."""
    dataset, name = find("def ours(): return range_(2)\ndataset = range_(9)", "ours")

    assert name == "ours"
    assert elements(dataset) == [0, 1]


def test_values_go_to_the_factory_where_there_is_a_dataset_as_well(find):
    """A dataset takes no values, so the factory is meant."""
    text = "def make_dataset(n=1): return range_(n)\ndataset = make_dataset()"
    dataset, name = find(text, n=3)

    assert name == "make_dataset"
    assert elements(dataset) == [0, 1, 2]


def test_several_datasets_are_refused_with_all_their_names(find):
    """The message lists them and shows how to name one."""
    with pytest.raises(DatasetFileError) as refused:
        find("train = range_(1)\ntest = range_(2)")

    assert (
        str(refused.value)
        == "pipeline.py has several to choose from: test, train. Call one `dataset`, or "
        "name it: pipeline.py:test."
    )


def test_several_factories_are_refused_with_all_their_names(find):
    """As for datasets."""
    with pytest.raises(DatasetFileError) as refused:
        find("def make_dataset(): ...\ndef get_dataset(): ...")

    assert (
        str(refused.value)
        == "pipeline.py has several to choose from: get_dataset, make_dataset. Call one "
        "`dataset`, or name it: pipeline.py:get_dataset."
    )


def test_two_names_for_one_dataset_are_not_several(find):
    """`train = best = ...` leaves no doubt about which is meant."""
    assert len(elements(find("train = best = range_(2)")[0])) == 2


def test_a_file_without_a_dataset_is_refused(find):
    """The message says what to define."""
    with pytest.raises(DatasetFileError) as refused:
        find("x = 1\ndef main(): ...")

    assert (
        str(refused.value)
        == "pipeline.py has no dataset: define `dataset`, or a function `make_dataset()` "
        "that returns one, at the top level; of another framework `loader` or "
        "`make_loader()`."
    )


def test_a_name_that_is_not_there_is_refused_with_those_that_are(find):
    """Datasets stand as they are, factories with parentheses."""
    with pytest.raises(DatasetFileError) as refused:
        find("train = range_(1)\ndef make_dataset(): ...", "trian")

    assert (
        str(refused.value)
        == "pipeline.py defines no `trian`. Found: train, make_dataset()."
    )


def test_a_misspelt_function_is_found_among_those_of_the_file(find):
    """Any that the file defines could be meant; one that looks like it comes first."""
    with pytest.raises(DatasetFileError) as refused:
        find(
            "from os.path import join\ndef evaluate(): ...\ndef _help(): ...\n"
            "class Train: ...\ndef train(): ...",
            "Trian",
        )

    assert (
        str(refused.value)
        == "pipeline.py defines no `Trian`. Found: train(), evaluate()."
    )


def test_of_many_functions_a_few_are_shown(find):
    """Those that look like what was asked for, and how many there are."""
    many = [f"def load_{number}(): ..." for number in range(30)]
    with pytest.raises(DatasetFileError) as refused:
        find("\n".join([*many, "def validation(): ..."]), "validaton")

    output = str(refused.value)
    assert "Found: validation(), load_0(), " in output
    assert output.endswith(", load_6() and 23 more.")


def test_a_name_is_refused_in_a_file_that_has_none(find):
    """`nothing` stands where the names would."""
    with pytest.raises(DatasetFileError) as refused:
        find("x = 1", "train")

    assert str(refused.value) == "pipeline.py defines no `train`. Found: nothing."


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x = [1]", "list"), ("class x: ...", "type"), ("x = iter(range_(1))", "Owned")],
)
def test_a_name_of_something_else_is_refused(find, text, kind):
    """The message says what it is instead."""
    with pytest.raises(DatasetFileError) as refused:
        find(text, "x")

    assert str(refused.value).startswith(
        "`x` in pipeline.py must be a tf.data.Dataset, a loader that can be iterated, "
        "or a function that returns one, "
        f"got {kind}"
    )


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
    ],
)
def test_an_annotation_says_what_a_text_means(call, annotation, text, value):
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


def test_a_bool_for_a_default_says_what_a_text_means_as_well(call):
    """Most files have no annotations; what is not such a word keeps its own meaning."""
    seen = []

    def make_dataset(shuffle=True, cache=False, repeat=True):
        seen.append((shuffle, cache, repeat))
        return tf.data.Dataset.range(1)

    call(make_dataset, shuffle="false", cache="Yes", repeat="1000")

    assert seen == [(False, True, 1000)]


def test_annotations_that_cannot_be_evaluated_are_read_as_they_stand(find):
    """A name that is there for type checkers only does not spoil the others."""
    text = (
        "def make_dataset(n: 'int', path: 'Path', flag: 'bool' = True):\n"
        "    return range_(n if flag is False else 0)"
    )

    assert elements(find(text, n="2", path="x", flag="off")[0]) == [0, 1]


def test_a_factory_beside_a_dataset_is_passed_over_with_a_note(tmp_path):
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


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            "dataset = [1, 2]",
            r"`dataset` in pipeline.py .* got list. .*from_tensor_slices",
        ),
        ("dataset = iter(range_(3))", r"got OwnedIterator. Define the dataset that"),
        ("def make_dataset(): pass", r"got NoneType. Is a `return` missing\?"),
        ("async def make_dataset(): pass", r"got coroutine. .* without `async`"),
    ],
)
def test_what_is_no_dataset_is_refused_with_advice(find, text, advice):
    """The message says what it got, and how to make a dataset of it."""
    with pytest.raises(DatasetFileError, match=advice):
        find(text)


def test_what_a_factory_raises_is_passed_on(call):
    """A TypeError of its own is not taken for wrong arguments."""

    def make_dataset():
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        call(make_dataset)
