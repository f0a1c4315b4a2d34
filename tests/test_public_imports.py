"""Public functions and names: there in each order of imports, without TensorFlow."""

import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT, run_python
from module_imports import MODULES, PACKAGE

pytestmark = pytest.mark.long


@pytest.mark.parametrize("first", ["names", "modules"])
def test_public_functions_are_functions_in_each_order_of_imports(first):
    """Before and behind the import of every module, `measure` is the function."""
    modules = [
        f"ipufeed.{name}"
        for name in MODULES
        if name.startswith(("benchmark.", "executable.")) and "__main__" not in name
    ]
    code = (
        "import importlib, inspect\n"
        "import ipufeed\n"
        "from ipufeed import benchmark, executable\n"
        "def check():\n"
        "    for package in (benchmark, executable):\n"
        "        for name in package.__all__:\n"
        "            is_module = inspect.ismodule(getattr(package, name))\n"
        "            assert is_module == (name == 'dataset_benchmark'), name\n"
        f"if {first!r} == 'names':\n"
        "    check()\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        "check()\n"
    )
    done = run_python(code, forked=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_the_help_needs_no_tensorflow():
    """`python -m ipufeed.benchmark --help` imports nothing that is slow."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ipufeed.benchmark", "--help"],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "usage: python -m ipufeed.benchmark" in done.stdout
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "ipufeed.benchmark.cli.options.parser" in imported
    assert not {"tensorflow", "numpy", "pyarrow", "tqdm"} & imported


@pytest.mark.process
def test_configuring_needs_no_tensorflow():
    """The device's package, and all that configures it, is light to import."""
    modules = [
        "",
        ".config.config",
        ".config.options",
        ".flags.environment",
        ".flags.flags",
        ".system.system",
    ]
    code = (
        "import importlib, sys, types\n"
        # ipufeed itself loads the native library, and TensorFlow with it.
        "package = types.ModuleType('ipufeed')\n"
        f"package.__path__ = [{str(PACKAGE)!r}]\n"
        "sys.modules['ipufeed'] = package\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module('ipufeed.device' + name)\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_what_only_programs_need_is_loaded_with_the_first_one():
    """Reports and the cache are a third of ipufeed's modules."""
    code = (
        "import sys, ipufeed, tensorflow as tf\n"
        "late = {'ipufeed.executable.' + name for name in ('compile.programs',"
        " 'report.write', 'store.cache')}\n"
        "assert not late & set(sys.modules), late & set(sys.modules)\n"
        "with tf.device('/device:IPU:0'):\n"
        "    assert tf.function(lambda x: x + 1, jit_compile=True)(1.0) == 2.0\n"
        "assert late <= set(sys.modules), late - set(sys.modules)\n"
    )
    done = run_python(code, forked=False)

    assert done.returncode == 0, done.stderr


def test_the_public_names_are_there():
    """Everything in __all__ can be had, and the version is the package's."""
    import ipufeed
    import ipufeed.benchmark
    import ipufeed.sources

    for module in (ipufeed, ipufeed.benchmark, ipufeed.sources):
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ipufeed.nonsense
