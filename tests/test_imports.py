"""The direction of dependencies: each layer may use only what stands below it."""

import ast
import importlib
import itertools
import re

import pytest
from module_imports import MODULES, PACKAGE, all_arrows, circles, python_files

# What a part of the package may import of it: the picture in CONTRIBUTING.md. A part is a
# folder without folders, or a file next to folders. Each may import itself and what stands
# above it in this table, as far as it is named there; native code imports no Python.
ALLOWED = {
    "errors": set(),
    "exit_codes": set(),
    "checks": set(),
    "tf_types": set(),
    "_version": set(),
    "interruptible": set(),
    "once": set(),
    "process_state": set(),
    "no_effect": {"process_state"},
    "python_ops": set(),
    "_quiet_import": set(),
    "render": set(),
    "tf_patches": {"tf_types"},
    "ending": {"tf_patches"},
    "_entry_points": set(),
    "_native": {"_entry_points", "ending", "errors"},
    "queues": {
        *("checks", "errors", "no_effect", "ending", "once"),
        *("_native", "process_state", "tf_patches", "tf_types"),
    },
    "sources.loaders": {"tf_types", "errors", "_native", "once", "process_state"}
    | {"interruptible"},
    "sources": {"sources.loaders", "tf_types", "checks", "errors", "_native"},
    # The simulated IPU.
    "device.log": {"_native", "once"},
    "device.flags": {"errors", "process_state"},
    "device.config": {"device.flags", "checks", "errors", "no_effect"},
    "device.system": {
        *("device.log", "device.config", "device.flags"),
        *("checks", "errors", "no_effect", "once", "process_state"),
    },
    "device.program": {
        "tf_types",
        *("device.log", "device.system"),
        *("queues", "_native", "checks", "errors", "no_effect"),
        *("once", "process_state", "tf_patches"),
    },
    "device.random": {
        *("device.program", "device.system", "queues", "_native"),
        *("no_effect", "process_state", "tf_patches", "tf_types"),
    },
    "device.queue_hooks": {
        *("device.log", "device.flags", "device.system", "device.program"),
        *("device.random", "queues", "_native", "errors", "tf_patches"),
        *("tf_types", "_entry_points"),
    },
    "device": {"device.program"},  # its public names
    # Compiled programs.
    "executable.hlo": {"_native"},
    "executable.program": {
        *("executable.hlo", "device.config", "device.flags", "device.system"),
        *("_native", "errors", "no_effect", "render"),
    },
    "executable.store": {
        *("executable.program", "device.log", "device.flags"),
        *("_native", "errors", "process_state", "render"),
    },
    "executable.explanation": {
        *("executable.hlo", "executable.program", "executable.store", "render"),
        "errors",
    },
    "executable.tracing": {"executable.program", "device.log", "_native", "render"},
    "executable.report": {
        *("executable.hlo", "executable.program"),
        *("device.flags", "device.log", "device.system", "_version", "render"),
        "process_state",
    },
    "executable.compile": {
        *("executable.program", "executable.store", "executable.explanation"),
        *("executable.tracing", "executable.report"),
        *("device.log", "device.config", "device.flags", "device.system"),
        *("device.program", "queues", "_native", "errors"),
        *("checks", "process_state", "render"),
    },
    "executable.commands": {
        *("executable.hlo", "executable.program", "executable.store"),
        *("executable.explanation", "executable.report"),
        *("_native", "_quiet_import", "errors", "exit_codes", "render"),
    },
    "executable.__main__": {"executable.commands", "errors", "exit_codes", "render"},
    "executable": set(),
    # Programs of several IPUs.
    "parallel.collectives": {
        *("device.log", "queues", "_native", "checks", "no_effect", "once"),
        "tf_types",
    },
    "parallel.optimizers": {
        *("parallel.collectives", "device.program", "queues", "_native"),
        *("checks", "no_effect", "tf_types"),
    },
    "parallel.pipeline": {
        *("parallel.optimizers", "executable.program"),
        *("device.log", "device.system", "device.program", "queues"),
        *("_native", "checks", "no_effect", "python_ops", "tf_types"),
    },
    "parallel.timelines": {"parallel.pipeline", "executable.tracing", "device.log"},
    "parallel": {"parallel.timelines"},  # its public name
    # Graphcore's operations.
    "ops.codelets": {"tf_types"},
    "ops.host": {"checks", "process_state", "tf_types"},
    "ops.quarter": {"checks", "tf_types"},
    "ops.losses": {"checks", "device.program", "tf_types"},
    "ops": {
        *("ops.codelets", "ops.host", "ops.losses", "parallel.pipeline"),
        *("device.program", "device.random", "queues", "process_state"),
        *("_native", "checks", "errors", "no_effect", "once", "tf_types"),
    },
    "ops.recurrent": {"ops", "checks", "no_effect", "tf_types"},
    # What programs import next to Graphcore's package.
    "programs": {
        *("ops", "parallel.collectives", "parallel.optimizers"),
        *("device.config", "device.flags", "device.program", "device.system"),
        *("queues", "_native", "checks", "no_effect", "process_state"),
        *("render", "tf_types"),
    },
    # Programs in files.
    "applications": {
        *("executable.program", "executable.store", "ops", "parallel.pipeline"),
        *("device.log", "device.program", "device.system", "queues", "checks"),
        *("_native", "ending", "errors", "process_state", "render", "tf_patches"),
        *("tf_types", "_version"),
    },
    # Keras models.
    "keras.layers": {"checks", "no_effect", "tf_patches", "tf_types"},
    "keras.losses": set(),
    "keras.changes": {"tf_patches", "tf_types"}
    | {"device.program", "device.random", "device.system"},
    "keras.pipeline": {"checks", "device.program", "tf_patches", "tf_types"},
    "keras.optimizers": {
        "tf_types",
        *("keras.layers", "parallel.collectives", "parallel.optimizers"),
        *("device.program", "device.system", "no_effect", "tf_patches"),
    },
    "keras.checks": {"checks", "device.program", "errors", "python_ops", "tf_types"},
    "keras.data": {"keras.checks", "device.log", "_native", "tf_types"},
    "keras": {
        *("keras.changes", "keras.checks", "keras.data", "keras.layers"),
        *("keras.pipeline", "queues"),
        *("parallel.collectives", "parallel.optimizers", "parallel.pipeline", "checks"),
        *("device.log", "device.program", "device.system"),
        *("applications", "no_effect", "once", "tf_patches", "tf_types"),
    },
    "keras.older": {"keras", "keras.layers", "tf_types"},
    "estimators": {
        *("parallel.collectives", "parallel.optimizers", "parallel.pipeline", "ops"),
        *("device.config", "device.flags", "device.program", "device.system"),
        *("queues", "keras.changes", "checks", "errors", "no_effect", "tf_types"),
    },
    # The benchmark.
    "benchmark.process": {"_native", "errors", "render"},
    "benchmark.report": {"executable.tracing", "render"},
    "benchmark.result": {"benchmark.report", "checks", "render"},
    "benchmark.graph": {"tf_types", "_native", "python_ops", "render"},
    "benchmark.loaders": {"benchmark.result", "render", "sources.loaders"}
    | {"interruptible", "process_state"},
    "benchmark.load": {
        *("benchmark.loaders", "benchmark.process", "sources.loaders"),
        *("_native", "_quiet_import", "checks", "errors", "tf_types"),
    },
    "benchmark.comparing": {"benchmark.result", "errors", "render"},
    "benchmark.measuring": {
        *("benchmark.loaders", "benchmark.result", "executable.tracing", "checks"),
        *("_native", "_version", "errors", "interruptible", "render", "tf_types"),
        "sources.loaders",
    },
    "benchmark.stages": {"benchmark.graph", "benchmark.measuring", "benchmark.result"}
    | {"_native", "tf_types"},
    "benchmark.advice": {
        *("benchmark.stages", "benchmark.graph", "benchmark.loaders", "checks"),
        *("benchmark.measuring", "benchmark.result", "errors", "render", "tf_types"),
        "sources.loaders",
    },
    # Three ways to run a dataset; none imports another.
    "benchmark.cold": {"benchmark.graph", "benchmark.measuring", "benchmark.result"}
    | {"sources", "errors", "render", "tf_types"},
    "benchmark.device": {
        *("benchmark.loaders", "benchmark.measuring", "benchmark.result"),
        *("device.queue_hooks", "device.program", "queues", "_native", "errors"),
        *("checks", "interruptible", "render", "tf_types", "sources.loaders"),
    },
    "benchmark.scaleout": {
        *("benchmark.load", "sources.loaders", "benchmark.graph", "tf_types"),
        *("benchmark.measuring", "benchmark.process", "benchmark.result"),
        *("_native", "errors", "render"),
    },
    "benchmark.plugin": {
        *("benchmark.comparing", "benchmark.measuring", "benchmark.report", "errors"),
        *("benchmark.result", "render"),
    },
    "benchmark.cli.options": {
        *("benchmark.advice", "benchmark.comparing", "benchmark.device"),
        *("benchmark.result", "benchmark.scaleout", "exit_codes", "render"),
    },
    "benchmark.cli": {
        *("tf_types", "benchmark.cli.options", "benchmark.advice", "benchmark.cold"),
        *("benchmark.comparing", "benchmark.device", "benchmark.load"),
        *("sources.loaders", "benchmark.measuring", "benchmark.process"),
        *("benchmark.report", "benchmark.result", "benchmark.scaleout", "errors"),
        *("exit_codes", "render"),
    },
    "benchmark": {  # its public names, loaded at their first use
        *("benchmark.advice", "benchmark.comparing", "benchmark.measuring"),
        *("benchmark.result", "benchmark.dataset_benchmark"),
    },
    "benchmark.dataset_benchmark": {
        *("tf_types", "benchmark.result", "checks", "_native", "queues"),
    },
    "benchmark.selftest": {
        *("benchmark", "benchmark.device", "benchmark.measuring", "benchmark.process"),
        *("benchmark.result", "tf_types", "_native", "_quiet_import", "render"),
        "exit_codes",
    },
    "benchmark.__main__": {"benchmark.cli", "benchmark.process"},
    # What a program imports first.
    "graphcore_names": set(),  # as text: what they import is imported at their use
    "compat": {"graphcore_names", "programs", "tf_patches"},
    "child_processes": {"_native", "compat"},
    "connect": {
        *("_native", "applications"),
        *("device.queue_hooks", "device.program", "device.random"),
        *("executable.compile", "parallel.collectives", "keras"),
        *("ops", "programs"),
        *("once", "queues", "tf_patches", "tf_types"),
    },
    "run": {"_quiet_import", "child_processes", "exit_codes", "render"},
    "__init__": {"_native", "_version", "graphcore_names"},
}
# The parts below the queues: folders need not name them as what they use.
GROUND = {*itertools.takewhile(lambda part: part != "queues", ALLOWED)}
# Arrows that go up, and why; not one more.
UPWARD = {
    # IPUConfig.configure_ipu_system, of Graphcore's API.
    ("device.config.config", "device.system.system"),
    # An infeed queue's type spec makes an iterator's queue of it.
    ("queues.infeed", "queues.iterators"),
}
# Files that import by a name in text, or look into sys.modules, and what the names are.
BY_NAME = {
    "__init__.py": "public names, at their first use",
    "child_processes/sitecustomize.py": "modules that others have made",
    "compat.py": "Graphcore's names, at their first use",
    "benchmark/__init__.py": "public names, at their first use",
    "benchmark/cli/main.py": "the subcommands",
    "benchmark/load/dataset_file.py": "the modules of a dataset's file",
    "executable/__init__.py": "public names, at their first use",
    "executable/__main__.py": "the subcommands",
    "keras/__init__.py": "public names, at their first use",
    "keras/layers/__init__.py": "public names, at their first use",
    "keras/optimizers/__init__.py": "public names, at their first use",
    "sources/__init__.py": "public names, at their first use",
    "tf_patches/frozen_keras.py": "modules of TensorFlow that use its old Keras",
    "tf_patches/moved_names.py": "modules of TensorFlow",
    "tf_patches/removed_names.py": "modules of TensorFlow",
}


def part_of(module: str) -> str:
    """The part of the package that a module belongs to; see ALLOWED."""
    return module if module in ALLOWED else module.rpartition(".")[0]


def test_a_file_imports_only_what_is_below_it():
    """An arrow in code points to a part that the table names, never up."""
    unknown = {part_of(module) for module in MODULES} - set(ALLOWED)
    assert not unknown, "new: add to ALLOWED what they may import"

    wrong = {
        f"{one} -> {other}"
        for one, other in all_arrows() - UPWARD
        if part_of(other) not in {part_of(one), *ALLOWED[part_of(one)]}
    }
    assert not wrong


def test_the_table_has_an_order_and_no_arrow_too_many():
    """A part is named behind what it imports; what is allowed is used."""
    order = list(ALLOWED)
    up = {
        f"{part} -> {other}"
        for part, others in ALLOWED.items()
        for other in others
        if order.index(other) > order.index(part)
    } - {"benchmark -> benchmark.dataset_benchmark"}
    assert not up

    used = {(part_of(one), part_of(other)) for one, other in all_arrows()}
    unused = {
        f"{part} -> {other}"
        for part, others in ALLOWED.items()
        for other in others
        if (part, other) not in used
    }
    assert not unused


def test_no_files_import_each_other_in_a_circle():
    """Two arrows go up, each for a reason; without them no circle is left."""
    assert all_arrows() >= UPWARD, "one is gone: take it from the list"
    assert circles({("a", "b"), ("b", "c"), ("c", "b")}) == {"b", "c"}
    assert not circles(all_arrows() - UPWARD)


def reaches_by_name(node: ast.AST) -> bool:
    """Whether code imports a module by a text, or takes it from sys.modules."""
    if isinstance(node, ast.Call):
        call = ast.unparse(node.func)
        if not call.endswith(("import_module", "__import__", "sys.modules.get")):
            return False
        name = node.args[0]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
        name = node.slice
    else:
        return False
    return not isinstance(name, ast.Constant) or str(name.value).startswith("ipufeed")


def test_no_import_is_hidden_in_a_text():
    """A name in a text is an arrow that the table cannot see: only the tables may."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in python_files()
        if any(map(reaches_by_name, ast.walk(ast.parse(path.read_text()))))
    }

    assert found - {"device/random/patches.py"} == set(BY_NAME)  # patches: Keras's


def test_each_folder_describes_what_it_holds():
    """The docstring of its __init__ is the sign on the door."""
    folders = {path.parent for path in python_files()}
    for folder in folders:
        doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""

        assert len(doc.splitlines()) >= 3, folder


def used_by(folder: str) -> set[str]:
    """What the table lets a folder use, as its docstring names it.

    Folders of the same package by their names, others as `ipufeed.NAME`; the ground floor
    is left out.
    """
    package, _, inner = folder.partition(".")
    parts = [part for part in ALLOWED if part == folder]
    if not inner:
        parts += [part for part in ALLOWED if part.startswith(f"{package}.")]
    names = set()
    for target in {each for part in parts for each in ALLOWED[part]} - GROUND:
        top = target.partition(".")[0]
        if inner and target.startswith(f"{package}."):
            names.add(target.removeprefix(f"{folder}.").removeprefix(f"{package}."))
        elif inner or top != package:
            names.add(f"ipufeed.{top}")
    return names


def test_each_folder_names_what_it_uses():
    """The sentence `Uses a, b and c.` of its docstring is the table's row."""
    wrong = {}
    for folder in {path.parent for path in python_files()} - {PACKAGE}:
        name = ".".join(folder.relative_to(PACKAGE).parts)
        doc = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        found = re.findall(r"\bUses\s+(.+?)(?:\.(?=\s|$)|:)", doc, re.DOTALL)
        named = {*re.split(r",\s+|\s+and\s+", " ".join(found))}
        used = used_by(name) or {"no other folder"}
        if len(found) != 1 or named != used:
            wrong[name] = f"Uses {', '.join(sorted(used))}."

    assert not wrong


FORWARDED = {
    "device": {"step", "to_times", "read_clock", "set_executor"},
    "parallel": {"timeline"},
}


@pytest.mark.parametrize("package", ["benchmark", "executable", "sources", *FORWARDED])
def test_no_room_has_the_name_of_a_public_function(package):
    """Importing a submodule sets the package's attribute of that name."""
    module = importlib.import_module(f"ipufeed.{package}")
    inside = {path.stem for path in (PACKAGE / package).iterdir()}
    names = FORWARDED.get(package) or set(module.__all__)

    assert all(getattr(module, name) is not None for name in names)
    assert names & inside <= {"dataset_benchmark"}  # a module
