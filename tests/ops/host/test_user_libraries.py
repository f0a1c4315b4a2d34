"""A user's library is loaded by its content: a rebuilt one is another library."""

import os
import pathlib
import re
import shutil
import stat
import tempfile
import time

import numpy as np
import pytest
import tensorflow as tf
from user_libraries import PREAMBLE, compiled, copies

from ipufeed.applications import tracing
from ipufeed.device.program import compiler
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.ops.custom_ops import cpu_user_operation
from ipufeed.ops.host import user_library

pytestmark = [
    pytest.mark.usefixtures("clean_system", copies.__name__),
    pytest.mark.long,
]
X = np.array([1, 2, 3], np.float32)
CONSTANT = (
    PREAMBLE
    + """
extern "C" {
int32_t custom_op_api_level = 5;
int calls = 0;
void Callback(In data, Counts counts, Out outputs, Text attributes, Text name) {
  *static_cast<float*>(outputs[0]) = VALUE + ++calls;
}
}
"""
)
ONE = {"output_types": [tf.float32], "output_shapes": [[1]]}


@pytest.mark.parametrize("jit", [True, None])
def test_a_library_that_is_rebuilt_is_loaded_again(tmp_path, jit):
    """By a program that is built after it; the older program keeps its code and state."""
    path = tmp_path / f"lib{jit}.so"

    def program():
        return tf.function(
            lambda: cpu_user_operation([X], str(path), ONE)[0], jit_compile=jit
        )

    compiled(path, CONSTANT, "-DVALUE=10")
    old = program()
    assert old().numpy().tolist() == [11.0]
    compiled(path, CONSTANT, "-DVALUE=20")
    new = program()
    assert new().numpy().tolist() == [21.0]
    assert old().numpy().tolist() == [12.0]
    assert cpu_user_operation([X], str(path), ONE)[0].numpy().tolist() == [22.0]
    compiled(path, CONSTANT, "-DVALUE=10")  # as before: it is the library of before
    assert program()().numpy().tolist() == [13.0]


def test_a_copy_is_at_the_same_path_in_each_process(tmp_path, copies):
    """So that a compiled program is found again; only the user can write to it."""
    path = tmp_path / "libsame.so"
    compiled(path, CONSTANT, "-DVALUE=1")
    first = user_library.load(str(path))
    user_library._load.cache_clear()  # as in another process
    second = user_library.load(str(path))
    assert first.loaded == second.loaded
    loaded = pathlib.Path(first.loaded)
    assert loaded.read_bytes() == path.read_bytes()
    (folder,) = copies.iterdir()
    assert loaded.parents[1] == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    other = tmp_path / "other" / "libsame.so"
    other.parent.mkdir()
    shutil.copy(path, other)
    assert user_library.load(str(other)).loaded != first.loaded


def test_a_program_in_a_file_has_the_path_of_the_library(tmp_path, copies):
    """Which may run on another machine, without the copy."""
    path = tmp_path / "libfile.so"
    compiled(path, CONSTANT, "-DVALUE=1")

    def program(x):
        return cpu_user_operation([x], str(path), ONE)[0]

    for_a_file = tracing.trace(program, [X], "program")[0].library
    assert str(path).encode() in for_a_file
    assert str(copies).encode() not in for_a_file
    here = tf.function(program).get_concrete_function(X).graph.as_graph_def()
    assert str(copies) in str(here)


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch):
    """The process has a folder of its own then."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = tmp_path / f"ipufeed-libraries-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    folder = user_library._folder.__wrapped__()
    assert pathlib.Path(folder).parent == tmp_path
    assert folder != str(shared)


def test_copies_that_are_not_used_are_removed(tmp_path, monkeypatch):
    """After a week, by the next process that loads a library."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = pathlib.Path(user_library._folder.__wrapped__())
    path = tmp_path / "libkept.so"
    compiled(path, CONSTANT, "-DVALUE=1")
    monkeypatch.setattr(user_library, "_folder", lambda: str(folder))
    kept, _ = user_library._copied(str(path))
    names = ("old", "recent")
    for name, age_s in zip(names, (user_library.KEPT_S + 60, 60), strict=True):
        (folder / name).mkdir()
        (folder / name / "lib.so").write_bytes(b"")
        (folder / f"{name}.tmp").write_bytes(b"")
        then = time.time() - age_s
        for each in (folder / name, folder / f"{name}.tmp"):
            os.utime(each, (then, then))
    os.utime(pathlib.Path(kept).parent, (0, 0))
    user_library._copied(str(path))  # it is loaded again

    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert user_library._folder.__wrapped__() == str(folder)

    left = {each.name for each in folder.iterdir()}
    assert left == {"recent", "recent.tmp", pathlib.Path(kept).parent.name}


@pytest.mark.parametrize("step", ["utime", "replace", "_opened"])
def test_a_copy_that_another_process_removes_is_made_again(
    tmp_path, copies, monkeypatch, step
):
    """The folder of a copy of a week ago may go before any step that uses it."""
    path = tmp_path / f"lib{step}.so"
    compiled(path, f"int number_{step};")
    removed = []
    owner = user_library if step == "_opened" else user_library.os
    stock = getattr(owner, step)

    def after_a_removal(*paths):
        folder = pathlib.Path(paths[-1])
        folder = folder if step == "utime" else folder.parent
        if not removed and folder.is_relative_to(copies):
            shutil.rmtree(folder)
            removed.append(folder)
        return stock(*paths)

    monkeypatch.setattr(owner, step, after_a_removal)
    loaded = pathlib.Path(user_library._load(str(path), 0).loaded)

    assert loaded.read_bytes() == path.read_bytes()
    assert removed == [loaded.parent]
    assert not [each for each in loaded.parents[1].iterdir() if each.is_file()]


def test_a_library_that_needs_its_neighbours_is_loaded_in_place(tmp_path):
    """A copy of it in another folder would not find them."""
    compiled(tmp_path / "libvalue.so", 'extern "C" float value() { return 10; }')
    options = ("-L", tmp_path, "-lvalue", "-Wl,-rpath,$ORIGIN", "-DVALUE=value()")
    path = tmp_path / "libneeds.so"
    compiled(path, 'extern "C" float value();' + CONSTANT, *options)
    assert user_library.load(str(path)).loaded == str(path)
    assert cpu_user_operation([X], str(path), ONE)[0].numpy().tolist() == [11.0]


def test_a_rebuilt_library_without_a_copy_is_an_error(tmp_path, monkeypatch):
    """Its older code would run; the message has the remedies."""

    def opened(path):
        if path != str(library):
            raise OSError("no code may run there")
        return known(path)

    known, library = user_library._opened, tmp_path / "libfirst.so"
    monkeypatch.setattr(user_library, "_opened", opened)
    compiled(library, CONSTANT, "-DVALUE=1")
    assert user_library.load(str(library)).loaded == str(library)
    compiled(tmp_path / "libnext.so", CONSTANT, "-DVALUE=2")
    os.replace(tmp_path / "libnext.so", library)
    words = r"libfirst\.so was rebuilt after .* restart the process, or set TMPDIR"
    with pytest.raises(tf.errors.FailedPreconditionError, match=words):
        cpu_user_operation([X], str(library), ONE)


THROWS = (
    PREAMBLE
    + """
extern "C" {
int32_t custom_op_api_level = 5;
void Callback(In data, Counts counts, Out outputs, Text attributes, Text name) {
  if (attributes == "text") throw std::runtime_error("the library says no");
  if (attributes == "int") throw 5;
}
}
"""
)


def run_in_a_session(build):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            results = compiler.compile(lambda: tf.while_loop(*one_iteration(build)))
        return session.run(results)


def one_iteration(build):
    return lambda i, x: i < 1, lambda i, x: (i + 1, build()), [0, tf.zeros([1])]


HOW = {
    "eagerly": lambda build: build(),
    "compiled": lambda build: tf.function(build, jit_compile=True)(),
    "op by op": lambda build: tf.function(build)(),
    "in a function of it": lambda build: tf.function(
        lambda: tf.while_loop(*one_iteration(build)), jit_compile=True
    )(),
    "in a session": run_in_a_session,
}


@pytest.mark.parametrize("attributes", ["text", "int"])
@pytest.mark.parametrize("how", HOW)
def test_an_exception_names_the_library_and_the_op(tmp_path, how, attributes):
    """However the program runs, and whatever the function throws."""
    path = compiled(tmp_path / "libthrows.so", THROWS)

    def build():
        return cpu_user_operation([X], path, ONE, "mine", attributes=attributes)[0]

    words = f"user's function Callback of {re.escape(path)} \\(op 'mine'\\)"
    with pytest.raises(tf.errors.InternalError, match=words) as info:
        HOW[how](build)
    assert ("the library says no" in str(info.value)) == (attributes == "text")


def test_an_exception_of_one_of_several_functions_names_all(tmp_path):
    """Each once: the error has none of them."""
    path = compiled(tmp_path / "libthrows.so", THROWS)

    @tf.function(jit_compile=True)
    def program():
        for name in ("a", "b", "b"):
            cpu_user_operation([X], path, ONE, name)
        return cpu_user_operation([X], path, ONE, "c", attributes="text")

    ops = ["a", "b", "c"]
    listed = [f"Callback of {re.escape(path)} \\(op '{each}'\\)" for each in ops]
    words = f"one of the user's functions {listed[0]}, {listed[1]} and {listed[2]}"
    with pytest.raises(tf.errors.InternalError, match=words):
        program()


COUNTED = (
    PREAMBLE
    + r"""
extern "C" {
int32_t custom_op_api_level = 5;
// 2 * x, and how many are positive
void Callback(In data, Counts counts, Out outputs, Text, Text) {
  auto* x = static_cast<const float*>(data[0]);
  auto* count = static_cast<int32_t*>(outputs[1]);
  *count = 0;
  for (uint32_t i = 0; i < counts[0]; ++i) {
    static_cast<float*>(outputs[0])[i] = 2 * x[i];
    *count += x[i] > 0;
  }
}
// data: gradient, gradient of the count | output, count | x
void Callback_grad(In data, Counts counts, Out outputs, Text, Text) {
  auto* dz = static_cast<const float*>(data[0]);
  auto unused = *static_cast<const int32_t*>(data[1]);
  auto count = *static_cast<const int32_t*>(data[3]);
  for (uint32_t i = 0; i < counts[4]; ++i) {
    static_cast<float*>(outputs[0])[i] = 2 * dz[i] + 10 * count + 100 * unused;
  }
}
}
"""
)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("how", ["graph", "tape"])
def test_an_output_of_integers_has_a_gradient_of_zeros(tmp_path, how, separate):
    """TensorFlow gives None for it, which a library's function does not take."""
    path = str(compiled(tmp_path / "libcounted.so", COUNTED))
    outs = {"output_types": [tf.float32, tf.int32], "output_shapes": [[3], []]}

    @tf.function(jit_compile=True)
    def program(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            z, count = cpu_user_operation([x], path, outs, separate_gradients=separate)
            loss = tf.reduce_sum(tf.gather(z, [0, 2]) * 3.0)
        if how == "tape":
            return count, tape.gradient(loss, x)
        return count, tf.gradients(loss, [x])[0]

    with tf.device("/device:IPU:0"):
        count, gradient = program(tf.constant(X))
    assert count.numpy() == 3
    assert gradient.numpy().tolist() == [36.0, 30.0, 36.0]
