"""Ctrl-C ends a loop that has no queue and calls the host: KeyboardInterrupt, at once."""

import pytest
from helpers import run_python
from user_libraries import PREAMBLE, compiled

pytestmark = pytest.mark.process

PROGRAM = """
import os, signal, sys
import tensorflow as tf
import ipufeed as ipu

MORE = 10**9
strategy = ipu.IPUStrategy()

class Stderr:
    lines = 0
    def write(self, text):
        self.lines += 1
        if self.lines == 10:
            os.kill(os.getpid(), signal.SIGINT)
    def flush(self):
        pass
    def isatty(self):
        return False

def printed(x):
    shown = ipu.internal_ops.print_tensor(x)
    with tf.control_dependencies([shown]):
        return x + 1.0

def called(x):
    outs = {"output_types": [tf.float32], "output_shapes": [[]]}
    return ipu.custom_ops.cpu_user_operation([x], PATH, outs=outs)[0]

@tf.function(jit_compile=True)
def program(n):
    return ipu.loops.repeat(n, BODY, [0.0])

with strategy.scope():
    error, sys.stderr = sys.stderr, Stderr()
    try:
        strategy.run(program, [MORE])
    except KeyboardInterrupt:
        print("KeyboardInterrupt")
    finally:
        sys.stderr = error
    print(strategy.run(program, [3]).numpy())
"""
# The tenth call sends the signal; a call after the end of the run would be one too many.
SOURCE = (
    PREAMBLE
    + """
#include <csignal>
#include <unistd.h>
extern "C" int32_t custom_op_api_level;
int32_t custom_op_api_level = 5;
extern "C" void Callback(const std::vector<const void*>& data,
    const std::vector<uint32_t>& elements, const std::vector<void*>& outputs,
    const std::string& attributes, const std::string& name) {
  static int calls = 0;
  if (++calls == 10) kill(getpid(), SIGINT);
  *static_cast<float*>(outputs[0]) = *static_cast<const float*>(data[0]) + 1.0f;
}
"""
)


def ended(body, path=""):
    """What a process prints that runs the loop."""
    code = PROGRAM.replace("BODY", body).replace("PATH", repr(str(path)))
    done = run_python(code)
    return done.stdout.splitlines() or done.stderr


def test_a_loop_that_prints_is_interrupted():
    """Python's handler runs inside the function that prints."""
    assert ended("printed") == ["KeyboardInterrupt", "3.0"]


def test_a_loop_that_calls_a_users_library_is_interrupted(tmp_path):
    path = tmp_path / "libslow.so"
    compiled(path, SOURCE)

    assert ended("called", path) == ["KeyboardInterrupt", "3.0"]
