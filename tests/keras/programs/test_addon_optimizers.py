"""Optimizers of the addons that are not Keras's: LAMB, and Adam without debiasing.

Each runs in a process of its own, under Keras 3 and under tf_keras, and prints what it
has; the same is computed here with NumPy.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import DEADLOCK_S

pytestmark = [pytest.mark.long, pytest.mark.process]

STEPS = 3
RATE, DECAY, CLIP = 0.05, 0.1, 0.3  # the kernel is larger than CLIP

PROGRAM = """
import json
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu
from keras.ipu import PipelineStage
from ipu_tensorflow_addons.keras.optimizers import (
    AdamIpuOptimizer, LAMBIpuOptimizer, SGDIpuOptimizer)

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
x = np.linspace(-1, 1, 24).reshape(8, 3).astype("float32")
y = np.cos(np.arange(16)).reshape(8, 2).astype("float32")
rate, decay, clip = %s

def trained(make):
    with ipu.ipu_strategy.IPUStrategy().scope():
        keras.utils.set_random_seed(5)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="last")])
        optimizer = make()
        again = type(optimizer).from_config(optimizer.get_config())
        before = model.get_weights()
        model.compile(again, "mse")
        model.fit(x, y, 8, epochs=%d, verbose=0)
        return [each.tolist() for each in before + model.get_weights()]

print(json.dumps({
    "lamb": trained(lambda: LAMBIpuOptimizer(rate)),
    "decayed": trained(lambda: LAMBIpuOptimizer(
        rate, weight_decay_rate=decay, exclude_from_weight_decay=["last.*bias"],
        optimizer_compute_precisions=(tf.float32, tf.float32))),
    "scaled": trained(lambda: LAMBIpuOptimizer(
        rate, weight_decay_rate=decay, exclude_from_weight_decay=["kernel"],
        exclude_from_layer_adaptation=["bias"], debiasing=False, weight_norm_clip=clip)),
    "adam": trained(lambda: AdamIpuOptimizer(rate, debiasing=False)),
    "sgd": trained(lambda: SGDIpuOptimizer(rate, momentum=0.9)),
    "stock": trained(lambda: keras.optimizers.SGD(rate, momentum=0.9)),
    "keras": keras.Model.__module__.partition(".")[0],
    "pipeline": PipelineStage is keras.ipu.PipelineStage,
}))
"""


def gradients(weights):
    """Those of the mean square error of a dense layer."""
    x = np.linspace(-1, 1, 24).reshape(8, 3).astype("float32")
    y = np.cos(np.arange(16)).reshape(8, 2).astype("float32")
    kernel, bias = weights
    error = 2 * (x @ kernel + bias - y) / y.size
    return x.T @ error, error.sum(0)


def expected(weights, debias, epsilon, decayed=(), scaled=(), clip=np.inf):
    """Weights after STEPS of Adam, with the decay and the scale of LAMB for some."""
    weights = [np.array(each, np.float64) for each in weights]
    means, squares = ([np.zeros_like(each) for each in weights] for _ in "12")
    for step in range(1, STEPS + 1):
        for i, gradient in enumerate(gradients(weights)):
            means[i] = 0.9 * means[i] + 0.1 * gradient
            squares[i] = 0.999 * squares[i] + 0.001 * gradient**2
            mean, square = means[i], squares[i]
            if debias:
                mean, square = mean / (1 - 0.9**step), square / (1 - 0.999**step)
            move = mean / (np.sqrt(square) + epsilon)
            if i in decayed:
                move = move + DECAY * weights[i]
            size, length = np.linalg.norm(weights[i]), np.linalg.norm(move)
            scale = min(size, clip) / length if i in scaled and size and length else 1.0
            weights[i] = weights[i] - RATE * scale * move
    return weights


@pytest.fixture(scope="module", params=["0", "1"], ids=["keras3", "tf_keras"])
def found(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("addons")
    (folder / "program.py").write_text(PROGRAM % ((RATE, DECAY, CLIP), STEPS))
    done = subprocess.run(
        [sys.executable, "-m", "ipufeed.run", "program.py"],
        env={
            **os.environ,
            "TF_USE_LEGACY_KERAS": request.param,
            "TF_CPP_MIN_LOG_LEVEL": "2",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
    )
    assert done.returncode == 0, done.stderr
    assert "has no effect" not in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result.pop("keras") == ("tf_keras" if request.param == "1" else "keras")
    assert result.pop("pipeline")
    return result


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("lamb", {"debias": True, "epsilon": 1e-6, "scaled": (0, 1)}),
        ("decayed", {"debias": True, "epsilon": 1e-6, "decayed": (0,), "scaled": (0,)}),
        (
            "scaled",
            {
                **{"debias": False, "epsilon": 1e-6},
                **{"decayed": (1,), "scaled": (0,), "clip": CLIP},
            },
        ),
        ("adam", {"debias": False, "epsilon": 1e-7}),
    ],
)
def test_weights_move_by_the_rule(found, name, rule):
    """After three steps of an optimizer that was made from its own config."""
    want = expected(found[name][:2], **rule)

    for mine, theirs in zip(found[name][2:], want, strict=True):
        assert np.allclose(mine, theirs, atol=2e-5)


def test_sgd_is_that_of_keras(found):
    """With the addon's name."""
    assert found["sgd"] == found["stock"]
