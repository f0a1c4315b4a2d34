"""What the embedded runtime refuses: inputs, files and programs."""

import numpy as np
import pytest
import tensorflow as tf
from embedded_programs import X, compiled, configure, ones, queues

import ipufeed
from ipufeed.applications import engine, file
from ipufeed.applications.compiling import experimental_application_compile_op
from ipufeed.applications.runtime import (
    embedded_runtime_call,
    embedded_runtime_start,
)
from ipufeed.device.program import loops
from ipufeed.executable import __main__ as commands
from ipufeed.process_state import STATE
from ipufeed.queues import IPUOutfeedQueue
from ipufeed.queues.outfeed import IPUOutfeedMode

pytestmark = pytest.mark.usefixtures("clean_system", "engines_end")


@pytest.fixture
def engines_end():
    yield
    STATE.reset("engines", "provided")


# ---- What is refused


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ({"w": 1}, ValueError, "Failed to find input tensor with name 'weights'"),
        ([], ValueError, "runtime expects 1 inputs, but 0 were provided"),
        ("x", TypeError, "Expected the inputs to be a list"),
        ([np.zeros(4)], TypeError, "dtype at position 0 .'weights'.. Expected float32"),
        ([ones()[:2]], ValueError, "Mismatched input shape at position 0 .'weights'."),
    ],
)
def test_inputs_that_do_not_fit_the_start(tmp_path, inputs, error, words):
    """Each error names the input and what is expected."""
    path = compiled(tmp_path / "a.poplar_exec")
    with pytest.raises(error, match=words):
        embedded_runtime_start(path, inputs, "engine")
    assert not engine.exists("engine")


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ([ones()], ValueError, "call expects 2 inputs, but 1 were provided"),
        ({"x": 1}, TypeError, "Expected the inputs to be a list"),
        ([ones(), 1.5], TypeError, "Cannot convert 1.5"),
        ([ones().astype(int), 1], TypeError, "dtype at position 0"),
        ([ones()[:2], 1], ValueError, r"Expected \[4\], but input 0 has shape \(2,\)"),
    ],
)
def test_inputs_that_do_not_fit_a_call(tmp_path, inputs, error, words):
    """And the engine goes on."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    context = embedded_runtime_start(path, [], "engine")
    with pytest.raises(error, match=words):
        embedded_runtime_call(inputs, context)
    assert embedded_runtime_call([ones(), 1], context)[1].numpy() == 2


def test_damaged_and_foreign_files_are_refused(tmp_path, monkeypatch):
    """By their checksums, and by the version of TensorFlow that wrote them."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)
    data = path.read_bytes()
    for at in (len(data) - 1, len(data) // 2, 60):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(tf.errors.InvalidArgumentError, match="checksum"):
            embedded_runtime_start(path, [], "engine")
    path.write_bytes(data)
    path.chmod(0o666)
    with pytest.raises(tf.errors.PermissionDeniedError, match="every user"):
        embedded_runtime_start(path, [], "engine")
    path.chmod(0o600)
    with pytest.raises(tf.errors.NotFoundError, match="There is no application file"):
        embedded_runtime_start(tmp_path / "none", [], "engine")
    monkeypatch.setattr(tf.version, "VERSION", "9.8.7")
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"TensorFlow version mismatch. Runtime version is 9.8, executable version "
        r"is 2\.",
    ):
        file.read(path)


def test_what_a_file_cannot_hold_is_refused_when_it_is_traced(tmp_path):
    """Before anything is compiled."""
    configure()
    infeed, _ = queues(X)
    last = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    cases = {
        "must have the mode ALL": lambda: loops.repeat(
            2, lambda x: last.enqueue(x), [], infeed
        ),
        "only variables and queues": lambda: table.size(),
    }
    before = ipufeed.executable.stats().compiles
    for words, function in cases.items():
        with pytest.raises(ValueError, match=words):
            experimental_application_compile_op(function)
    with pytest.raises(TypeError, match="`func` must be a function"):
        experimental_application_compile_op(3)
    with pytest.raises(ValueError, match="must be in a folder that exists"):
        experimental_application_compile_op(len, output_path="/nowhere/at/all")
    with pytest.raises(ValueError, match="must be that of a file, got the folder /"):
        experimental_application_compile_op(len, output_path=tmp_path)
    assert ipufeed.executable.stats().compiles == before


def test_the_commands_of_the_cache_read_application_files(tmp_path, capsys):
    """They have its format."""
    path = compiled(tmp_path / "a.poplar_exec", freeze_variables=True)

    assert commands.main(["show", str(path)]) == 0
    assert "ipufeed_application" in capsys.readouterr().out
