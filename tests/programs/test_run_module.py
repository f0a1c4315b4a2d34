"""python -m ipufeed.run -m module: a module runs as `python -m module` would run it."""

import os
import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = pytest.mark.process

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.fixture
def both(tmp_path):
    """Runs a module of the working directory: with Python alone, and with ours."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("print('the package', __name__)\n")
    (package / "near.py").write_text("VALUE = 5\n")

    def both(*arguments, code=""):
        (package / "module.py").write_text(code)
        return [
            children.run(
                [sys.executable, *runner, "-m", *arguments],
                capture_output=True,
                text=True,
                timeout=DEADLOCK_S,
                check=False,
                cwd=tmp_path,
                env=ENVIRONMENT,
            )
            for runner in ([], ["-m", "ipufeed.run"])
        ]

    return both


def test_a_module_runs_as_main(both):
    """Its name, package, arguments, file, path, and what it imports from its package."""
    code = (
        "import sys, __main__\n"
        "from .near import VALUE\n"
        "print(__name__, __package__, __spec__.name, __file__, __loader__ is not None)\n"
        "print(sys.argv, sys.path[0], VALUE, sys.modules['__main__'] is __main__)\n"
        "sys.exit(7)\n"
    )
    arguments = ["package.module", "-m", "x", "--help"]
    plain, ours = both(*arguments, code=code)

    assert (plain.returncode, "__main__ package" in plain.stdout) == (7, True)
    assert (ours.returncode, ours.stdout) == (7, plain.stdout), ours.stderr


def test_a_package_runs_its_main(both):
    """And finds Graphcore's names."""
    plain, ours = both("package")

    assert ours.stdout == plain.stdout == "the package __main__\n", ours.stderr
    _, ours = both("package.module", code="from tensorflow.python import ipu; print(5)")
    assert ours.stdout == "5\n", ours.stderr


@pytest.mark.parametrize("name", ["package.nothing", "nothing", "package.near.x"])
def test_a_module_that_is_not_there_is_refused(both, name):
    """In Python's words and with its exit code."""
    plain, ours = both(name)

    words = plain.stderr.partition(": ")[2]
    assert words
    assert (ours.returncode, ours.stderr) == (1, f"ipufeed.run: {words}")


@pytest.mark.parametrize(
    "code", ["def f():\n    1 / 0\nf()\n", "import package.wrong\n", "x = (1,\n"]
)
def test_a_traceback_has_the_modules_frames_only(both, code):
    """Not those of Python's own runner, which Python shows."""
    plain, ours = both("package.module", code=code)

    assert ours.returncode == plain.returncode == 1
    assert ours.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    assert "runpy" not in ours.stderr
    assert "run.py" not in ours.stderr
    for line in ours.stderr.splitlines():
        assert line in plain.stderr
