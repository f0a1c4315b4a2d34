"""Which dataset of a file is measured: by its name, its type or its function."""

import re

import pytest
from written_files import elements

from ipufeed.benchmark.load import dataset_file
from ipufeed.errors import DatasetFileError

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


ROWS = """
class Dataset:
    __module__ = "datasets.arrow_dataset"
    def __iter__(self): return iter([1, 2])
def make_loader(): return iter([3])
"""


@pytest.mark.parametrize("name", ["dataset", "rows"])
def test_a_function_that_makes_a_loader_wins_over_what_it_reads(find, name):
    """Rows of Hugging Face under any name; but not over what is called `loader`."""
    assert find(f"{ROWS}{name} = Dataset()")[1] == "make_loader"
    assert find(f"{ROWS}{name} = Dataset()\nloader = Dataset()")[1] == "loader"
    assert find(f"{ROWS}{name} = Dataset()\ndel make_loader")[1] == name


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


def test_a_function_that_is_neither_is_not_a_factory(find):
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


def test_a_class_is_not_a_factory(find):
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
    """Those that resemble the requested name, and how many there are."""
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loader = [1]", "got list. Make one of it with tf.data.Dataset"),
        ("class loader:\n    __iter__ = None", "got type. It is a class"),
        ("class L:\n    __next__ = id\nloader = L()", "got L. A `for` loop needs"),
        (
            "async def make_loader():\n    yield 1",
            "got async_generator. It is asynchronous",
        ),
        (
            "import contextlib\n"
            "@contextlib.contextmanager\n"
            "def make_loader():\n    yield [1]",
            "got _GeneratorContextManager. Enter this context manager",
        ),
    ],
)
def test_other_values_are_refused_with_what_to_change(find, text, words):
    """Under a usual name, which the file has given it."""
    with pytest.raises(DatasetFileError, match=re.escape(words)):
        find(text)
