"""The folders of the native core: each includes itself and those above it."""

import collections
import importlib.util
import re
from pathlib import Path

from helpers import ROOT

CC = ROOT / "ipufeed" / "cc"
# In this order; ipufeed/cc/README.md says what is in each.
LAYERS = (
    "core",
    "base",
    "data",
    "measure",
    "run",
    "feeds",
    "device",
    "replicas",
    "pipeline",
    "random",
    "host",
    "xla/calls",
    "xla/lowering",
    "xla/compile",
    "xla/clusters",
    "capi",
)
# stubs: headers that the wheel of TensorFlow leaves out, under their own names. pch: what
# the build compiles ahead.
OTHERS = ("stubs", "pch")
# "folder/file -> folder/header": why it is still there.
DEBT: dict[str, str] = {}

# The name of a constant at the level of a namespace.
CONSTANT = re.compile(
    r"^(?:inline |static )*(?:constexpr|const|constinit) [^;{=()\n]*?"
    r"\b(k[A-Z]\w*)(?= ?[\[={;]|$)",
    re.MULTILINE,
)

TENSORFLOW = re.compile(r"(tensorflow|tsl|xla|absl|Eigen|google|mlir|llvm)/")


def sources():
    return sorted(path for path in CC.rglob("*") if path.suffix in (".cc", ".h"))


def place(path):
    """The path of a file below ipufeed/cc."""
    return path.relative_to(CC).as_posix()


def layer(name):
    """The folder of a file, or of what an include names."""
    return name.rpartition("/")[0]


def includes(path):
    return re.findall(r'^#include ["<]([^">]+)[">]', path.read_text(), re.MULTILINE)


def own_includes(path):
    """Those that are a file of `ipufeed/cc`."""
    return [name for name in includes(path) if (CC / name).is_file()]


def test_each_file_is_in_a_folder_of_the_list():
    """A new folder has a place in the order before it has files."""
    folders = {layer(place(path)) for path in sources()}
    known = {folder for folder in folders if not folder.startswith(OTHERS)}

    assert known == set(LAYERS)


def test_each_folder_includes_itself_and_those_above_it():
    """What cannot be mended yet is in DEBT, with its reason."""
    wrong = {
        f"{place(path)} -> {name}"
        for path in sources()
        if not place(path).startswith(OTHERS)
        for name in own_includes(path)
        if LAYERS.index(layer(name)) > LAYERS.index(layer(place(path)))
    }

    assert wrong == set(DEBT)
    assert all(DEBT.values())


def test_files_are_named_by_their_folder():
    """`#include "core/feed.h"`, also from within core: one way to name each file."""
    names = {path.name for path in sources()}

    assert not [
        f"{place(path)}: {name}"
        for path in sources()
        for name in includes(path)
        if name in names
    ]


def test_each_constant_has_a_name_of_its_own():
    """Files are compiled as one unit, in which a second constant hides a header's.

    One in an unnamed namespace does so silently, in the files behind it.
    """
    declared = collections.defaultdict(set)
    for path in sources():
        for name in CONSTANT.findall(path.read_text()):
            declared[name].add(place(path))

    assert len(declared) > 50
    assert {name: files for name, files in declared.items() if len(files) > 1} == {}


def test_no_file_of_ipufeed_hides_one_of_tensorflow():
    """Our folder is searched first, and has an `xla` of its own."""
    tensorflow = importlib.util.find_spec("tensorflow")
    headers = Path(tensorflow.origin).parent / "include"
    hidden = [
        place(path)
        for path in sources()
        if not place(path).startswith(OTHERS) and (headers / place(path)).exists()
    ]

    assert hidden == []


def test_the_core_knows_nothing_of_tensorflow():
    """It compiles alone: under the sanitizers, and next to the models."""
    for path in sorted((CC / "core").iterdir()):
        assert not [name for name in includes(path) if TENSORFLOW.match(name)], path


def test_the_calls_of_compiled_programs_need_the_interface_for_them_only():
    """XLA's other headers take a minute to compile."""
    for path in sorted((CC / "xla" / "calls").iterdir()):
        others = set(includes(path)) - {"xla/ffi/api/ffi.h"}
        foreign = {name for name in others if not (CC / name).is_file()}
        assert not [
            name for name in foreign if re.match(r"xla/|tensorflow/compiler/", name)
        ], path


def test_no_native_file_includes_python():
    """The native library is not a Python module and needs no interpreter."""
    for path in sources():
        assert "Python.h" not in includes(path)
