"""What the package takes for granted of TensorFlow, and no compiler checks.

A new version of TensorFlow is looked at here first: each test names what relies on it.
"""

import pathlib
import re
import subprocess

import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, ROOT, run_python
from tensorflow.compiler.xla.service import hlo_pb2

TRIPS = 7


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    """Ops that show what TensorFlow's C++ side does: native/assumptions.cc.

    They compile for 10 s, and only another TensorFlow would give another answer: their
    tests are marked `soak`.
    """
    library = tmp_path_factory.mktemp("assumptions") / "assumptions.so"
    tensorflow = tf.sysconfig.get_lib()
    source = pathlib.Path(__file__).parent / "native" / "assumptions.cc"
    subprocess.run(
        [
            *("g++", "-std=c++17", "-O0", "-shared", "-fPIC", "-pthread"),
            *("-DNDEBUG", "-DEIGEN_USE_THREADS"),
            *(flag for flag in tf.sysconfig.get_compile_flags() if flag[:2] == "-D"),
            *("-isystem", tf.sysconfig.get_include()),
            *("-isystem", str(ROOT / "ipufeed" / "cc" / "stubs")),
            str(source),
            *(f"-L{tensorflow}", "-l:libtensorflow_framework.so.2"),
            *("-l:libtensorflow_cc.so.2", "-o", str(library)),
        ],
        check=True,
        timeout=DEADLOCK_S,
    )
    return tf.load_op_library(str(library))


@tf.function(jit_compile=True)
def turning(x):
    """A program with a loop whose number of trips XLA finds out."""
    return tf.while_loop(
        lambda i, _: i < TRIPS, lambda i, y: (i + 1, tf.sin(y)), [0, x]
    )


def modules():
    """The program's module, as it was lowered and as it was compiled."""
    ir = turning.experimental_get_compiler_ir(tf.ones([4]))
    stages = ("hlo_serialized", "optimized_hlo_serialized")
    return [hlo_pb2.HloModuleProto.FromString(ir(stage=stage)) for stage in stages]


def test_a_module_has_the_name_of_its_function():
    """Log lines, reports and `explain` call a program as its author does."""
    for module in modules():
        assert module.name.startswith("a_inference_turning_")


def test_backend_configurations_are_text_that_compiling_keeps():
    """Estimates of cycles read the number of a loop's trips there."""
    _, compiled = modules()
    configurations = [
        each.backend_config
        for computation in compiled.computations
        for each in computation.instructions
        if each.opcode == "while"
    ]

    assert len(configurations) == 1
    assert b'"known_trip_count":{"n":"%d"}' % TRIPS in configurations[0]


def test_a_function_to_be_compiled_is_marked():
    """ipu_device.cc distinguishes a program from an op by the mark."""
    function = turning.get_concrete_function(tf.ones([4])).function_def
    plain = tf.function(lambda x: x + 1).get_concrete_function(tf.ones([4]))

    assert function.attr["_XlaMustCompile"].b
    assert not plain.function_def.attr["_XlaMustCompile"].b


def test_xla_compile_marks_its_results():
    """device/cluster_output_op.cc gives the mark a kernel."""
    with tf.Graph().as_default() as graph:
        tf.xla.experimental.compile(lambda: [tf.ones([2]) * 2])

    assert "XlaClusterOutput" in {each.type for each in graph.get_operations()}


@pytest.mark.soak
def test_a_step_has_its_number_and_a_session_s_its_container(ops):
    """base/eager.h distinguishes eager calls from a session's steps by their container."""

    def numbers():
        return ops.assumed_step_id(), ops.assumed_container_id()

    traced = tf.function(numbers, autograph=False)
    eager = [[int(each) for each in call()] for call in (numbers, traced, traced)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        both = numbers()
        stepped = [session.run(both) for _ in range(2)]

    assert [container for _, container in eager] == [0, 0, 0]
    assert len({step for step, _ in eager} | {0}) == 4
    assert all(step == container for step, container in stepped)
    assert stepped[0] != stepped[1]


@pytest.mark.soak
def test_the_compiler_of_a_device_has_its_name(ops):
    """xla/compile/compiler.cc puts one of its own in the place, before TensorFlow does."""
    turning(tf.ones([4]))

    assert "xla_device_compiler" in ops.assumed_resources().numpy().decode()


@pytest.mark.soak
def test_a_stream_of_the_host_does_at_once_what_it_is_given(ops):
    """A program's results are read when its executable has returned."""
    assert ops.assumed_host_stream().numpy()


def test_the_conditions_of_status_or_are_aliases():
    """ipufeed/cc/CMakeLists.txt makes structs of them, with which g++ is far faster."""
    include = pathlib.Path(tf.sysconfig.get_include())
    text = (include / "absl/status/internal/statusor_internal.h").read_text()

    assert len(re.findall(r"using Is\w+ =\s*absl::(?:con|dis)junction<", text)) == 11


@pytest.mark.process
def test_a_program_computes_on_the_pool_that_it_is_given():
    """Queue calls find their program by the pool that hands the context on."""
    done = run_python(
        "import os, ipufeed, tensorflow as tf\n"
        "def names():\n"
        "    tasks = '/proc/self/task'\n"
        "    return [open(f'{tasks}/{t}/comm').read().strip() for t in os.listdir(tasks)]\n"
        "x = tf.ones([999, 999])\n"
        "with tf.device('/device:IPU:5'):\n"
        "    program = tf.function(lambda x: tf.exp(x) @ x, jit_compile=True)\n"
        "    print(sum('ipu5' in each for each in names()))\n"
        "    program(x)\n"
        "    print(sum('ipu5_intra' in each for each in names()) > 0)\n"
    )

    assert done.stdout.split() == ["0", "True"], done.stderr
