"""Child processes of a program of `python -m ipufeed.run` find Graphcore's names, too."""

import os
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = [pytest.mark.process, pytest.mark.long]

# Without a level of TensorFlow's log, of which the program's children then print nothing.
LEVEL = "TF_CPP_MIN_LOG_LEVEL"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != LEVEL},
    "PYTHONPATH": str(ROOT),
}

HOOK = ROOT / "ipufeed" / "child_processes"

# The parent never imports TensorFlow's names itself: the child does, as its first import
# of this file, and then starts a child with the interpreter.
PROGRAM = """
import multiprocessing, subprocess, sys
import tensorflow as tf
one = tf.constant(1.0)  # runs an op before the names are imported
from tensorflow.python import ipu

def child(results):
    import popdist
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        results.put(float(ipu.loops.repeat(3, lambda x: x + one, 0.0)))
    code = "import popdist, sys; import tensorflow as tf; tf.compat.v1.layers.dense; "
    code += "import tensorflow.python.ipu as ipu; print(ipu.__name__, sys.argv)"
    done = subprocess.run([sys.executable, "-c", code, "x"], capture_output=True, text=True)
    results.put((done.returncode, done.stdout))
    sys.exit(5)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    results = context.Queue()
    process = context.Process(target=child, args=(results,))
    process.start()
    print(results.get(), results.get())
    process.join()
    print(process.exitcode)
"""


def run(command, **changes):
    return subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={**ENVIRONMENT, **changes},
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_and_their_children_find_the_names(tmp_path, method):
    """As the program does: of multiprocessing, and with sys.executable."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run([sys.executable, "-m", "ipufeed.run", tmp_path / "program.py", method])

    child = (0, "tensorflow.python.ipu ['-c', 'x']\n")
    assert done.stdout == f"3.0 {child}\n5\n", done.stderr
    assert "GPU" not in done.stderr


def plain_and_hooked(tmp_path, *arguments, executable=sys.executable, paths=(ROOT,)):
    """Runs Python with the folder on its path, without the hook and with it."""
    found = []
    for first in ([], [HOOK]):
        path = os.pathsep.join(map(str, [*first, tmp_path, *paths]))
        found.append(
            subprocess.run(
                [executable, *arguments],
                capture_output=True,
                text=True,
                timeout=DEADLOCK_S,
                check=False,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": path},
            )
        )
    return found


def test_a_traceback_of_tensorflows_import_is_unchanged(tmp_path):
    """Nothing of the hook is in it, and the exit code is the same."""
    (tmp_path / "tensorflow.py").write_text("def f():\n    raise KeyError('x')\nf()\n")
    plain, hooked = plain_and_hooked(tmp_path, "-c", "import tensorflow")

    assert "KeyError: 'x'" in plain.stderr
    assert (hooked.returncode, hooked.stderr) == (plain.returncode, plain.stderr)


def test_a_child_without_tensorflow_imports_nothing_more(tmp_path):
    """Nor is the hook's folder on its path; `-I` takes no hook."""
    code = "import sys; print(sys.path, sorted(sys.modules))"
    plain, hooked = plain_and_hooked(tmp_path, "-c", code)

    modules = hooked.stdout.replace("'sitecustomize', ", "").replace(
        "'__future__', ", ""
    )
    assert modules == plain.stdout.replace("'sitecustomize', ", "")
    plain, hooked = plain_and_hooked(tmp_path, "-I", "-c", code)
    assert hooked.stdout == plain.stdout


def test_the_sitecustomize_of_the_user_runs(tmp_path):
    """It is the module of this name, and its errors are shown as Python shows them."""
    (tmp_path / "sitecustomize.py").write_text("print('mine')\nVALUE = 1\n")
    code = "import sitecustomize; print(sitecustomize.VALUE, sitecustomize.__file__)"
    plain, hooked = plain_and_hooked(tmp_path, "-c", code)

    assert plain.stdout.startswith("mine\n1 ")
    assert hooked.stdout == plain.stdout
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('wrong')\n")
    plain, hooked = plain_and_hooked(tmp_path, "-c", "print(5)")
    assert (hooked.stdout, hooked.stderr) == (plain.stdout, plain.stderr)


def test_a_child_of_another_environment_is_left_alone(tmp_path):
    """Without ipufeed there, TensorFlow is imported as without the hook."""
    (tmp_path / "tensorflow.py").write_text("VALUE = 7\n")
    code = (
        "import importlib.util, tensorflow; print(tensorflow.VALUE, "
        "importlib.util.find_spec('ipufeed'), importlib.util.find_spec('popdist'))"
    )
    for done in plain_and_hooked(
        tmp_path, "-c", code, executable=sys._base_executable, paths=()
    ):
        assert done.stdout == "7 None None\n", done.stderr


def test_a_search_for_tensorflow_does_not_prevent_the_preparation(tmp_path):
    """Packages look whether it is there, and import it later."""
    (tmp_path / "program.py").write_text(
        "import subprocess, sys\n"
        "code = 'import importlib.util as u; u.find_spec(\"tensorflow\"); '\n"
        "code += 'import tensorflow as tf; print(tf.compat.v1.layers.dense.__name__)'\n"
        "subprocess.run([sys.executable, '-c', code])\n"
    )
    done = run([sys.executable, "-m", "ipufeed.run", tmp_path / "program.py"])

    assert done.stdout == "dense\n", done.stderr
