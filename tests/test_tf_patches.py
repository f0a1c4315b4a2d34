"""What is replaced in TensorFlow stands in one table, which is as long as it must be."""

import ast
import re

import pytest
import tensorflow as tf
from helpers import ROOT

from ipufeed.tf_patches.changes import CHANGES, replace

PACKAGE = ROOT / "ipufeed"
# Files that set attributes of foreign modules and classes by themselves, and why.
OTHERS = {
    "child_processes/sitecustomize.py": "the spec of a module that it has made",
    "compat.py": "adds Graphcore's modules, and replaces nothing",
    "benchmark/load/dataset_file.py": "the module of a dataset's file",
    "device/config/tree.py": "classes of IPUConfig",
    "tf_patches/changes.py": "`replace` itself",
}


def foreign_names(tree):
    """Names of a file that are TensorFlow's or Keras's, or imported from them.

    Also parameters that are classes or modules, which need not be of the package.
    """
    found = set()
    for node in ast.walk(tree):
        annotation = getattr(node, "annotation", None)
        if isinstance(node, ast.arg) and annotation is not None:
            words = {*re.split(r"\W+", ast.unparse(annotation))}
            found |= {node.arg} if words & {"type", "ModuleType"} else set()
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in ("tensorflow", "keras", "tf_keras"):
                    found.add(alias.asname or alias.name.partition(".")[0])
        elif isinstance(node, ast.ImportFrom):
            top = (node.module or "").partition(".")[0]
            if top in ("tensorflow", "keras", "tf_keras"):
                found |= {alias.asname or alias.name for alias in node.names}
    return found


def root_of(node):
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "vars" and node.args:
        return "vars"
    return node.id if isinstance(node, ast.Name) else None


def replaces(path):
    """Whether a file sets an attribute of TensorFlow's modules or classes by itself."""
    tree = ast.parse(path.read_text())
    foreign = foreign_names(tree) | {"vars"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = [
                each
                for each in node.targets
                if isinstance(each, (ast.Attribute, ast.Subscript))
            ]
            if any(root_of(each) in foreign for each in targets):
                return True
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr"
        if is_call and root_of(node.args[0]) in foreign:
            return True
    return False


def test_no_file_replaces_what_the_table_does_not_have():
    """Only through `replace`, which refuses what is not in the table."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if replaces(path)
    }

    assert found == set(OTHERS)
    with pytest.raises(
        KeyError, match=r"Tensor.numpy is replaced, and CHANGES has no row"
    ):
        replace(tf.Tensor, "numpy", None)


def test_each_change_has_its_module_and_its_test():
    """The table names files that there are, and the module makes the change."""
    for change in CHANGES.values():
        path = PACKAGE / (change.where.replace(".", "/") + ".py")

        assert re.search(r"\b(replace|add_entry)\(", path.read_text()), change
        assert (ROOT / change.test).is_file(), change
