"""python -m ipufeed.run: a program runs as `python program.py` would run it.

argv, __main__, sys.path, exit codes, tracebacks, Ctrl-C, and what goes to stderr
"""

import os
import signal
import subprocess
import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.fixture
def folder(tmp_path):
    """Where the program is; the process starts elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def command(program, *arguments):
    return [sys.executable, "-m", "ipufeed.run", str(program), *arguments]


def environment(**changes):
    kept = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


@pytest.fixture
def run(folder):
    """Runs the code as folder/program.py."""

    def run(code, *arguments, **changes):
        (folder / "program.py").write_text(code)
        return children.run(
            command(folder / "program.py", *arguments),
            capture_output=True,
            text=True,
            timeout=DEADLOCK_S,
            check=False,
            cwd=folder / "elsewhere",
            env=environment(**changes),
        )

    return run


def test_a_program_gets_its_arguments(run, folder):
    """Also those that look like options, ours included; argv[0] is as it was given."""
    done = run("import sys; print(sys.argv)", "--help", "-x", "a b", "--", "--steps=3")

    path = str(folder / "program.py")
    assert done.stdout == f"{[path, '--help', '-x', 'a b', '--', '--steps=3']}\n"
    assert done.returncode == 0


def test_a_program_is_main(run, folder):
    """Its name, its file, and the module that others import as `__main__`."""
    done = run(
        "import sys, __main__\n"
        "VALUE = 5\n"
        "print(__name__, __file__, __main__.VALUE, sys.modules['__main__'] is __main__)\n"
        "print(__doc__, __builtins__.__name__)\n"
    )

    path = str(folder / "program.py")
    assert done.stdout == f"__main__ {path} 5 True\nNone builtins\n", done.stderr


def test_a_programs_folder_is_first_on_the_path(run, folder):
    """It imports what lies next to it, and not what lies where the process started."""
    (folder / "nearby.py").write_text("print('nearby')")
    (folder / "elsewhere" / "numpy.py").write_text(
        "raise SystemExit('the wrong numpy')"
    )
    done = run(
        "import nearby, sys; print(sys.path[0]); import numpy; print(numpy.ndim)"
    )

    first, second, third = done.stdout.splitlines()
    assert (first, second) == ("nearby", str(folder))
    assert "function ndim" in third


def test_a_program_runs_from_a_checkout(folder):
    """Where ipufeed is found in the working directory alone, it can still be imported."""
    (folder / "program.py").write_text(
        "import ipufeed.device.program.loops, sys; print(sys.path[0])"
    )
    kept = environment()
    del kept["PYTHONPATH"]
    done = children.run(
        command(folder / "program.py"),
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=ROOT,
        env=kept,
    )

    assert done.stdout == f"{folder}\n", done.stderr


def test_a_relative_path_is_understood(folder):
    """From where the process started."""
    (folder / "program.py").write_text("import sys; print(sys.argv[0], __file__)")
    done = children.run(
        command("program.py"),
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=folder,
        env=environment(),
    )

    assert done.stdout == f"program.py {folder / 'program.py'}\n", done.stderr


def test_the_original_names_are_importable(run):
    """Every way in which programs import them; and they work."""
    done = run(
        "import tensorflow as tf\n"
        "from tensorflow.python import ipu\n"
        "from tensorflow.python.ipu import loops, utils\n"
        "from tensorflow.python.ipu.config import IPUConfig\n"
        "import tensorflow.python.ipu.scopes as scopes\n"
        "with scopes.ipu_scope('/device:IPU:0'):\n"
        "    print(float(loops.repeat(3, lambda x: x + 1, 0.0)))\n"
        "print(ipu.utils.IPUConfig is IPUConfig is utils.IPUConfig)\n"
    )

    assert done.stdout == "3.0\nTrue\n", done.stderr


def test_a_version_1_program_creates_variables_in_its_graph(run):
    """In functions, too: nothing is eager if the program disables eager execution."""
    done = run(
        "import tensorflow.compat.v1 as tf\n"
        "tf.disable_eager_execution()\n"
        "def body(i, y):\n"
        "    start = tf.constant_initializer(4.0)\n"
        "    return i + 1, y * tf.get_variable('x', [], initializer=start)\n"
        "_, result = tf.while_loop(lambda i, y: i < 2, body, (0, 1.0))\n"
        "with tf.Session() as session:\n"
        "    session.run(tf.global_variables_initializer())\n"
        "    print(session.run(result), len(tf.global_variables()))\n"
    )

    assert (done.returncode, done.stdout) == (0, "16.0 1\n"), done.stderr


@pytest.mark.parametrize(
    ("ending", "code", "output"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('no data')", 1, "no data\n"),
        ("raise SystemExit", 0, ""),
        ("import os; os._exit(9)", 9, ""),
    ],
)
def test_the_exit_code_is_the_programs(run, ending, code, output):
    """Whichever way it ends; and what it printed is there."""
    done = run(f"print('begun', flush=True)\n{ending}\n")

    assert (done.returncode, done.stdout) == (code, "begun\n")
    assert done.stderr == output


def test_a_traceback_has_the_programs_frames_only(run, folder):
    """It is the one that `python program.py` prints."""
    code = "def f():\n    raise KeyError('lost')\n\ntry:\n    f()\nfinally:\n    f()\n"
    done = run(code)
    plain = children.run(
        [sys.executable, str(folder / "program.py")],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == plain.stderr
    assert "ipufeed" not in done.stderr


def test_a_syntax_error_is_shown_as_python_shows_it(run, folder):
    """With the line and the mark below it, and no line of ipufeed."""
    done = run("x = (1,\ny = 2\n")

    assert done.returncode == 1
    assert "SyntaxError: '(' was never closed" in done.stderr
    assert 'program.py", line 1' in done.stderr
    assert "run.py" not in done.stderr


def test_a_programs_own_hook_gets_the_exception(run):
    """It sees the error, and the program's frames."""
    done = run(
        "import sys, traceback\n"
        "def hook(kind, error, frames):\n"
        "    print(kind.__name__, error, [f.name for f in traceback.extract_tb(frames)])\n"
        "sys.excepthook = hook\n"
        "raise ValueError('mine')\n"
    )

    assert done.stdout == "ValueError mine ['<module>']\n"
    assert (done.returncode, done.stderr) == (1, "")


def test_threads_and_exit_handlers_outlast_the_program(run):
    """They still find the program's globals, and `__main__` is still the program."""
    done = run(
        "import atexit, threading, __main__\n"
        "begin = threading.Event()\n"
        "word = 'here'\n"
        "def late():\n"
        "    begin.wait()\n"
        "    import __main__ as again\n"
        "    print(word, again is __main__, flush=True)\n"
        "threading.Thread(target=late).start()\n"
        "threading.Timer(0.2, begin.set).start()\n"
        "atexit.register(lambda: print(word, __main__.word))\n"
    )

    assert done.stdout == "here True\nhere here\n", done.stderr


def test_the_file_may_declare_its_encoding(folder):
    """As Python reads it."""
    path = folder / "program.py"
    path.write_bytes("# coding: latin-1\nprint(len('äöü'))\n".encode("latin-1"))
    done = children.run(
        command(path),
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env=environment(),
    )

    assert done.stdout == "3\n", done.stderr


def test_stderr_is_the_programs(run):
    """No chatter about GPUs, at import and at the first op; warnings still come."""
    done = run("import tensorflow as tf\nassert float(tf.constant(1.0) + 1.0) == 2.0\n")

    assert (done.returncode, done.stderr) == (0, "")


def test_the_environment_is_the_programs(run):
    """The log level is what the user has set, and not there if it was not set."""
    code = "import os; print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))"

    assert run(code, TF_CPP_MIN_LOG_LEVEL="0").stdout == "0\n"
    assert run(code).stdout == "None\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [("missing.py", "is not there"), ("elsewhere", "is not a file")],
)
def test_what_is_not_a_program_is_refused(folder, name, words):
    """In one line, with exit code 2, before TensorFlow is imported."""
    done = children.run(
        command(folder / name),
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env=environment(),
    )

    assert done.returncode == 2
    assert done.stderr == f"ipufeed.run: {folder / name} {words}: give a Python file.\n"


def test_without_a_program_the_usage_is_shown():
    """With exit code 2, as for every command."""
    done = children.run(
        [sys.executable, "-m", "ipufeed.run"],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env=environment(),
    )

    assert done.returncode == 2
    assert "usage: python -m ipufeed.run" in done.stderr


RUNS = """
import itertools, time
import tensorflow as tf
from tensorflow.python import ipu

def numbers():
    for n in itertools.count():
        time.sleep(0.001)
        if n == 200:  # more than the ring holds: the program runs
            print("running", flush=True)
        yield 1.0

data = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([]))
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
infeed.initializer

@tf.function(jit_compile=True)
def program():
    return ipu.loops.repeat(10**9, lambda t, x: t + x, [0.0], infeed)

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    {call}
"""


def interrupted(folder, code):
    """How the code ends after a Ctrl-C while its program runs."""
    (folder / "program.py").write_text(code)
    with children.Popen(
        command(folder / "program.py"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            assert process.stdout.readline() == "running\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=DEADLOCK_S)
        finally:
            process.kill()
    return process.returncode, out, err


def test_ctrl_c_ends_a_program_as_python_would(folder):
    """A running loop stops; KeyboardInterrupt, the program's frames, SIGINT as the end."""
    call = "strategy.run(program)"
    code, _, err = interrupted(folder, RUNS.format(call=call))

    assert code == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "run.py" not in err


def test_a_program_that_catches_ctrl_c_goes_on(folder):
    """The device is usable afterwards, and the exit code is the program's."""
    call = (
        "\n    try:\n        strategy.run(program)\n    except KeyboardInterrupt:\n"
        "        print(float(tf.constant(1.0) + 1.0))\n"
        "    infeed.deleter\n"
    )
    code, out, err = interrupted(folder, RUNS.format(call=call))

    assert (code, out) == (0, "2.0\n"), err
