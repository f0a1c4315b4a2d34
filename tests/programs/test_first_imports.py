"""python -m ipufeed.run imports TensorFlow when the program does."""

import os
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = [pytest.mark.process, pytest.mark.long]


def run(folder, code, launcher=("-m", "ipufeed.run")):
    """Runs the code in a new process, which has not imported TensorFlow."""
    path = folder / "program.py"
    path.write_text(code)
    kept = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, *launcher, str(path)],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={**kept, "PYTHONPATH": str(ROOT)},
    )


def test_variables_that_a_program_sets_before_tensorflow_act(tmp_path):
    """As with `python program.py`: TensorFlow is imported when the program imports it."""
    done = run(
        tmp_path,
        "import os\n"
        "os.environ['TF_USE_LEGACY_KERAS'] = '1'\n"
        "from tensorflow import keras\n"
        "from tensorflow.python import ipu\n"
        "print(keras.Model.__module__.split('.')[0])\n"
        "print(issubclass(ipu.keras.layers.LSTM, keras.layers.Layer))\n",
    )

    assert (done.stdout, done.stderr) == ("tf_keras\nTrue\n", "")


@pytest.mark.parametrize(
    "first",
    [
        "import ipufeed; ipufeed.compat.install()",
        "from ipufeed.queues import IPUInfeedQueue",
        "import popdist",
    ],
)
def test_a_program_may_import_ipufeed_first(tmp_path, first):
    """Its modules are loaded once, and Graphcore's names are there."""
    done = run(
        tmp_path,
        f"{first}\n"
        "from tensorflow.python import ipu\n"
        "import ipufeed, ipufeed.queues, sys\n"
        "print(ipu.ipu_infeed_queue.IPUInfeedQueue is ipufeed.queues.IPUInfeedQueue)\n"
        "print(sys.modules['ipufeed.queues'].__spec__.origin[-18:])\n",
    )

    assert (done.stdout, done.stderr) == ("True\nqueues/__init__.py\n", "")


@pytest.mark.parametrize("first", ["import tensorflow", "import ipu_tensorflow_addons"])
def test_other_packages_are_there_in_each_order(tmp_path, first):
    """The search for an installed package of addons took out the one of ipufeed."""
    done = run(
        tmp_path,
        f"{first}\n"
        "import ipu_tensorflow_addons\n"
        "from ipu_tensorflow_addons import keras\n"
        "from tensorflow.python.ipu import *\n"
        "print(keras.layers is ipu_tensorflow_addons.keras.layers)\n"
        "print(scopes.ipu_scope.__name__, ipu_compiler.compile.__name__)\n",
    )

    assert (done.stdout, done.stderr) == ("True\nipu_scope compile\n", "")


# An import of a module of tf.keras, whatever a program has imported of it before.
IMPORTS_OF_KERAS_2 = """
from tensorflow.keras.layers import Dense
from tensorflow.keras.mixed_precision import experimental as mixed_precision
from tensorflow.keras.losses import mean_squared_error
from tensorflow.keras.metrics import mean_absolute_error
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

mixed_precision.set_policy(mixed_precision.Policy("mixed_float16"))
for module in keras, tf.keras:
    print(module.mixed_precision.experimental.global_policy().name)
print(layers.experimental.preprocessing.Rescaling is layers.Rescaling)
print(keras.losses.mean_squared_error is mean_squared_error)
print(keras.metrics.mean_absolute_error is mean_absolute_error)
"""


@pytest.mark.parametrize("legacy", ["0", "1"], ids=["keras", "tf_keras"])
@pytest.mark.parametrize("launcher", [(), ("-m", "ipufeed.run")], ids=["own", "run"])
def test_names_of_keras_2_are_found_by_each_import(tmp_path, legacy, launcher):
    """Also where `tensorflow.keras.losses` is imported before `compat.install`."""
    start = f"import os; os.environ['TF_USE_LEGACY_KERAS'] = '{legacy}'"
    if not launcher:
        start += "\nimport tensorflow.keras.losses"
        start += "\nimport ipufeed.compat; ipufeed.compat.install()"
    done = run(tmp_path, start + IMPORTS_OF_KERAS_2, launcher)

    expected = [*["mixed_float16"] * 2, *["True"] * 3]
    assert done.stdout.split() == expected, done.stderr
