"""Programs are compiled once: across functions, sessions, IPUs, threads and processes.

function -> key -> memory | file | compile -> device
"""

import dataclasses
import json
import logging
import os
import re
import subprocess
import sys
import threading

import children
import numpy as np
import pytest
import styles
import tensorflow as tf
from helpers import ROOT

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.program import compiler, executor, loops
from ipufeed.device.program.outside_compilation import outside_compilation_scope
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import system
from ipufeed.executable.program.file_format import pack, unpack
from ipufeed.executable.store import counters
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedMode, IPUOutfeedQueue

v1 = tf.compat.v1
unique = iter(range(1, 10**6))


@pytest.fixture(autouse=True)
def fresh(clean_system):
    """No device holds a program, and the counters are at 0."""
    counters.reset_stats()


def stats():
    return counters.stats()


def loop(constant, mode=IPUOutfeedMode.ALL, elements=None):
    """A loop with queues that no other test has; gives a call, and its outfeed."""
    dataset = elements or tf.data.Dataset.from_tensors(tf.ones([4])).repeat()
    infeed = IPUInfeedQueue(dataset)
    outfeed = IPUOutfeedQueue(outfeed_mode=mode)
    _ = infeed.initializer

    def body(x, element):
        y = x + constant * tf.reduce_sum(element)
        return y, outfeed.enqueue(y)

    @tf.function(jit_compile=True)
    def program(n):
        return loops.repeat(n, body, [tf.zeros([2])], infeed)

    def run(n, ordinal=0):
        with tf.device(f"/device:IPU:{ordinal}"):
            return program(tf.constant(n)).numpy().tolist()

    return run, outfeed


def configured(connection, remote=True, **attributes):
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = connection
    config.device_connection.version = "ipu2"
    config.device_connection.enable_remote_buffers = remote
    for name, value in attributes.items():
        setattr(config, name, value)
    config.configure_ipu_system()


@pytest.mark.parametrize("style", ["graph", "function"])
def test_another_configuration_compiles_anew(style, tmp_path):
    """Programs are forgotten with the configuration, and not with the same one again."""
    value = float(next(unique))

    def named(x):
        return x * value + value

    with styles.entered(style, "xla") as ready:
        configured(DeviceConnectionType.ON_DEMAND)
        run = ready.build(named, 1.0)
        for _ in range(2):
            run(1.0)
            configured(DeviceConnectionType.ON_DEMAND)
        assert stats().compiles == 1

        options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
        configured(DeviceConnectionType.ON_DEMAND, compilation_poplar_options=options)
        assert styles.only(run(1.0)) == 2 * value
        assert stats().compiles == 2
        assert list(tmp_path.glob("tf_report__*/profile.pop"))
        run(1.0)
        assert stats().compiles == 2

        system.reset_ipu_configuration()
        run(1.0)
        assert stats().compiles == 3


def test_a_configuration_while_a_program_runs_does_not_disturb_it():
    """It goes on with what it has; what runs afterwards is compiled again."""
    run, outfeed = loop(float(next(unique)))
    thread = threading.Thread(target=run, args=(300_000,))
    thread.start()
    while thread.is_alive() and not len(outfeed.dequeue()):
        pass
    configured(DeviceConnectionType.ON_DEMAND)
    thread.join()
    run(2)
    run(2)

    assert stats().compiles == 2


def test_a_second_run_and_another_count_compile_nothing():
    """The number of iterations is a value, not a part of the program."""
    run, _ = loop(float(next(unique)))
    run(1)
    assert stats().compiles == 1
    run(1)
    run(7)
    assert stats().compiles == 1


def test_new_queues_and_another_ipu_share_the_program():
    """The same text, with queue objects of its own, and on another device."""
    constant = float(next(unique))
    run, _ = loop(constant)
    expected = run(3)
    again, _ = loop(constant)

    assert again(3) == expected
    assert again(3, ordinal=1) == expected
    assert stats().compiles == 1
    assert stats().memory_hits == 2


def test_threads_that_need_the_same_program_compile_it_once():
    """The first compiles, the others wait for it."""
    constant = float(next(unique))
    runs = [loop(constant)[0] for _ in range(3)]
    results = []
    threads = [
        threading.Thread(target=lambda run=run, n=n: results.append(run(2, ordinal=n)))
        for n, run in enumerate(runs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [[8.0 * constant] * 2] * 3
    assert stats().compiles == 1


def test_sessions_share_the_program():
    """A graph with ipu_compiler.compile, run by two sessions."""
    constant = float(next(unique))
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        with ipu_scope("/device:IPU:0"):
            result = compiler.compile(lambda y: y * constant + 1.0, [x])
        for _ in range(2):
            with v1.Session() as session:
                (value,) = session.run(result, {x: [1.0, 2.0]})
                assert value.tolist() == [constant + 1, 2 * constant + 1]

    assert stats().compiles == 1


@pytest.mark.parametrize("change", ["constant", "shape", "dtype"])
def test_another_program_is_compiled(change):
    """Of the same name, and the same otherwise."""
    base = float(next(unique))

    @tf.function(jit_compile=True, reduce_retracing=False)
    def program(x, factor):
        return x * factor

    with tf.device("/device:IPU:0"):
        program(tf.ones([3]), base)
        before = stats().compiles
        if change == "constant":
            program(tf.ones([3]), base + 0.5)
        elif change == "shape":
            program(tf.ones([4]), base)
        else:
            program(tf.ones([3], tf.float16), base)
    assert stats().compiles == before + 1


def test_programs_that_alternate_are_loaded_each_time():
    """An IPU holds one program; one that stays is loaded once."""
    first, _ = loop(float(next(unique)))
    second, _ = loop(float(next(unique)))
    first(1), second(1)
    counters.reset_stats()

    for _ in range(3):
        first(1), second(1)
    assert (stats().loads, stats().switches) == (6, 6)
    counters.reset_stats()

    for _ in range(3):
        second(1)
        first(1, ordinal=1)
    assert (stats().loads, stats().switches) == (1, 0)  # the first time on IPU 1
    assert stats().compiles == 0


def graph_with_step(step_device):
    """A training step and its counter, which is on the IPU or on the CPU."""
    x = v1.placeholder(tf.float32, [2])
    with tf.device(step_device):
        step = v1.get_variable(
            "step", [], tf.int64, v1.zeros_initializer(), use_resource=True
        )
        count = step.assign_add(1)
    with ipu_scope("/device:IPU:0"):
        constant = float(next(unique))
        result = compiler.compile(lambda y: y * constant + y, [x])
    return x, [result, count]


@pytest.mark.parametrize(
    ("device", "switches"), [("/device:IPU:0", True), ("cpu", False)]
)
def test_a_global_step_on_the_ipu_switches_programs(device, switches):
    """In each step; on the CPU it does not."""
    with tf.Graph().as_default(), v1.Session() as session:
        x, fetches = graph_with_step(device)
        session.run(v1.global_variables_initializer())
        session.run(fetches, {x: [1.0, 2.0]})
        counters.reset_stats()
        for _ in range(4):
            session.run(fetches, {x: [1.0, 2.0]})

    assert (stats().switches >= 4) == switches
    assert switches or stats().loads == 0


def test_a_graph_that_is_not_compiled_is_many_programs():
    """Each of its ops is one; the same computation compiled is one."""

    def compute(x):
        return tf.nn.relu(tf.linalg.matmul(x, x)) + 1.0

    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2, 2])
        with ipu_scope("/device:IPU:0"):
            split = compute(x)
            (whole,) = compiler.compile(compute, [x])
        with v1.Session() as session:
            values = []
            for fetch in (split, whole):
                session.run(fetch, {x: np.eye(2)})
                counters.reset_stats()
                values.append(session.run(fetch, {x: np.eye(2)}))
                if fetch is split:
                    assert stats().loads >= 3
                else:
                    assert stats().loads == 0

    np.testing.assert_array_equal(*values)


def test_what_the_executor_runs_as_one_program_is_one():
    """Its ops do not switch the device."""
    with tf.Graph().as_default(), executor.executor_scope("tensorflow"):
        x = v1.placeholder(tf.float32, [2, 2])
        with ipu_scope("/device:IPU:0"):
            result = compiler.compile(lambda y: tf.nn.relu(y @ y) + 1.0, [x])
        with v1.Session() as session:
            session.run(result, {x: np.eye(2)})
            counters.reset_stats()
            for _ in range(3):
                session.run(result, {x: np.eye(2)})
    assert stats().loads == 0


# ---- Pre-compiling


def counted(elements_taken):
    """A dataset that notes what has been taken from it."""

    def generate():
        while True:
            elements_taken.append(1)
            yield np.ones([4], np.float32)

    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec([4], tf.float32)
    )


@pytest.mark.parametrize("mode", list(IPUOutfeedMode))
def test_pre_compiling_gives_zeros_and_changes_nothing(flags, tmp_path, mode):
    """No device, no element taken, no variable changed; one result of zeros per look."""
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE)
    taken = []
    infeed = IPUInfeedQueue(counted(taken))
    outfeed = IPUOutfeedQueue(outfeed_mode=mode)
    _ = infeed.initializer
    constant = float(next(unique))
    strategy = IPUStrategy()
    with strategy.scope():
        variable = tf.Variable([1.0, 2.0])

        @tf.function(jit_compile=True)
        def program(n):
            def body(x, element):
                variable.assign_add(tf.reduce_sum(element) * constant * tf.ones([2]))
                return x + 1.0, outfeed.enqueue({"x": x, "v": variable})

            return loops.repeat(n, body, [tf.ones([])], infeed)

        result = strategy.run(program, [tf.constant(3)])

    assert float(result) == 0.0
    assert variable.numpy().tolist() == [1.0, 2.0]
    assert taken == []
    for _ in range(2):
        results = outfeed.dequeue()
        shape = [] if mode is IPUOutfeedMode.LAST else [1]
        assert results["x"].numpy().tolist() == np.zeros(shape).tolist()
        assert results["v"].shape == (*shape, 2)
    if mode is IPUOutfeedMode.ALL:
        assert [float(row["x"]) for row in outfeed.stream()] == [0.0]
    assert len(list((tmp_path / "cache").glob("*.poplar_exec"))) == 1
    assert (stats().saved, stats().loads) == (1, 0)


def test_pre_compiling_says_where_the_program_is(flags, tmp_path, caplog):
    """In the words that users look for."""
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE)
    with caplog.at_level(logging.INFO, "ipufeed"):
        loop(float(next(unique)))[0](1)

    (path,) = (tmp_path / "cache").iterdir()
    expected = f"A pre-compiled Poplar program has been saved to {path}"
    assert expected in [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"[1-9a-f][0-9a-f]*\.poplar_exec", path.name)


@pytest.mark.parametrize("remote", [False, True])
def test_what_was_compiled_before_is_found_whatever_was_said_of_remote_buffers(
    flags, tmp_path, remote
):
    """A program that has none is the same with and without them."""
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE, remote)
    constant = float(next(unique))
    loop(constant)[0](1)
    assert stats().compiles == 1
    configured(DeviceConnectionType.ALWAYS, not remote)

    assert loop(constant)[0](1) == [4 * constant] * 2
    assert stats().compiles == 1


def test_pre_compiling_needs_a_folder(clean_system):
    """Without one there is nothing that it could do."""
    configured(DeviceConnectionType.PRE_COMPILE)
    run, _ = loop(float(next(unique)))
    with pytest.raises(
        tf.errors.FailedPreconditionError,
        match="'executable_cache_path' in 'TF_POPLAR_FLAGS' has not been set",
    ):
        run(1)


def test_pre_compiling_refuses_programs_of_the_executor(flags, tmp_path):
    """Those that call the host."""
    flags(f"--executable_cache_path={tmp_path}/cache")
    configured(DeviceConnectionType.PRE_COMPILE)

    def body(x):
        with outside_compilation_scope():
            y = tf.identity(x)
        return y + 1.0

    strategy = IPUStrategy()
    with strategy.scope(), pytest.raises(tf.errors.UnimplementedError, match="outside"):
        strategy.run(tf.function(body, jit_compile=True), [tf.ones([2])])
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        with ipu_scope("/device:IPU:0"):
            result = compiler.compile(body, [x])
        with (
            v1.Session() as session,
            pytest.raises(tf.errors.UnimplementedError, match="outside"),
        ):
            session.run(result, {x: [1.0, 2.0]})


def test_pre_compiling_says_what_it_runs_for_real(flags, tmp_path, caplog):
    """A function that is not compiled cannot be saved; one warning names it."""
    flags(f"--executable_cache_path={tmp_path}")
    configured(DeviceConnectionType.PRE_COMPILE)
    strategy = IPUStrategy()

    @tf.function
    def uncompiled(x):
        return x + 1.0

    with strategy.scope():
        for _ in range(2):
            strategy.run(uncompiled, [tf.ones([2])])
    (line,) = [each for each in caplog.messages if "PRE_COMPILE" in each]
    assert line.startswith("uncompiled runs although")
    assert "jit_compile=True" in line


def test_never_compiles_and_does_not_run(clean_system):
    """The error comes after the compilation."""
    configured(DeviceConnectionType.NEVER)

    @tf.function(jit_compile=True)
    def program(x):
        return x * float(constant)

    constant = next(unique)
    ones = tf.ones([2])
    with (
        tf.device("/device:IPU:0"),
        pytest.raises(tf.errors.InvalidArgumentError, match="for compilation only"),
    ):
        program(ones)
    assert stats().compiles == 1


def test_on_demand_attaches_after_it_has_compiled(clean_system, caplog):
    """The device is not needed for compiling."""
    configured(DeviceConnectionType.ON_DEMAND)
    run, _ = loop(float(next(unique)))
    with caplog.at_level(logging.INFO, "ipufeed"):
        run(1)
    text = [record.getMessage() for record in caplog.records]
    compiled = next(n for n, line in enumerate(text) if line.startswith("Compiled "))
    attached = next(n for n, line in enumerate(text) if "attached to 1 IPU" in line)
    assert compiled < attached


# ---- Log lines and messages


def test_phases_are_logged_with_true_figures(monkeypatch, capfd):
    """One compilation and one load, in the lines that users count."""
    monkeypatch.setenv("POPLAR_LOG_LEVEL", "INFO")
    run, _ = loop(float(next(unique)))
    run(1)
    run(1)
    text = capfd.readouterr().err

    assert text.count("Starting phase: graphConstruction") == 1
    assert text.count("Starting phase: Loading executable") == 1
    (milliseconds,) = re.findall(
        r"Ending phase: graphConstruction \(duration (\d+) ms; diff RSS: -?[\d.e-]+ MB\)",
        text,
    )
    assert int(milliseconds) == round(stats().compile_seconds * 1e3)
    assert re.search(
        r"Ending phase: Loading executable \(duration \d+ ms; diff RSS: -?[\d.e-]+ MB\)",
        text,
    )


def test_without_the_variable_nothing_is_logged(monkeypatch, capfd):
    """But that a program was compiled."""
    monkeypatch.delenv("POPLAR_LOG_LEVEL", raising=False)
    loop(float(next(unique)))[0](1)
    assert "phase" not in capfd.readouterr().err


def test_the_progress_bar_ends(flags, capfd):
    """With 100 % and what it took."""
    flags("--show_progress_bar=true")
    loop(float(next(unique)))[0](1)
    text = capfd.readouterr().err
    assert "Compiling module program:" in text
    last = text[text.rindex("\r") :]
    assert re.search(
        r"100% Compilation Finished .*\[Elapsed: \d\d:\d\d:\d\d\.\d\]", last
    )


def test_programs_are_written_for_others(clean_system, tmp_path):
    """serialization_output_folder: the program, and what it takes and gives."""
    configured(
        DeviceConnectionType.ALWAYS, serialization_output_folder=str(tmp_path / "out")
    )
    loop(float(next(unique)))[0](1)

    (binary,) = (tmp_path / "out").glob("*.ipu_bin")
    description = json.loads(binary.with_suffix(".json").read_text())
    assert binary.stat().st_size > 1000
    assert description["hash"] == binary.stem
    assert "f32[4]" in description["infeeds"][0]
    assert description["outfeeds"][0][0] == "f32[2]"


# ---- Other processes

SCRIPT = """
import sys
{moved}
import tensorflow as tf
import ipufeed
from ipufeed.device.program import loops
from ipufeed.executable import stats
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue
for n in range({extra}):
    tf.function(lambda x: x + n)(1.0)
infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.ones([4])).repeat())
outfeed = IPUOutfeedQueue()
_ = infeed.initializer
def body(x, element):
    y = x * 0.5 + tf.reduce_sum(element)
    return y, outfeed.enqueue(y)
@tf.function(jit_compile=True)
def program(n):
    return loops.repeat(n, body, [tf.zeros([3])], infeed)
with tf.device("/device:IPU:{ordinal}"):
    result = program(tf.constant(3)).numpy().tolist()
assert result == [7.0] * 3, result
print(stats().compiles, stats().disk_hits, stats().refused)
"""


def start(folder, *, seed=None, extra=0, ordinal=0, moved=""):
    return children.Popen(
        [
            sys.executable,
            "-c",
            SCRIPT.format(extra=extra, ordinal=ordinal, moved=moved),
        ],
        env={
            **os.environ,
            **({} if seed is None else {"PYTHONHASHSEED": str(seed)}),
            "TF_POPLAR_FLAGS": f"--executable_cache_path={folder}",
        },
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return tuple(map(int, out.split())), err


@pytest.mark.process
def test_a_second_process_compiles_nothing(tmp_path):
    """With another hash seed, functions traced before, lines moved, on another IPU."""
    folder = tmp_path / "cache"
    assert ended(start(folder))[0] == (1, 0, 0)
    counts, err = ended(start(folder, seed=7, extra=5, ordinal=3, moved="#\n" * 40))
    assert counts == (0, 1, 0)
    # XLA finds that this CPU lacks what is a wish of its own compiler, and says so.
    assert "cpu_aot_loader" not in err


INTERRUPTED = """
import os, signal, sys, threading, time
folder = sys.argv[1]
import tensorflow as tf
import ipufeed
from ipufeed.executable import stats
@tf.function(jit_compile=True)
def big(x):
    for i in range(30):
        x = tf.sin(x @ tf.ones([16, 16]) * (i + 1.5)) + tf.nn.softmax(x)
    return x
def kill():
    while not os.path.isdir(folder) or not os.listdir(folder):
        time.sleep(0.002)
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGINT)
with tf.device("/device:IPU:0"):
    x = tf.ones([16, 16])
    big.get_concrete_function(x)
    threading.Thread(target=kill).start()
    try:
        big(x)
        print("finished")
    except KeyboardInterrupt:
        print("interrupted")
    print([each for each in os.listdir(folder) if "lock" in each or "tmp" in each])
    print(big(x).shape, stats().compiles)
"""


@pytest.mark.process
@pytest.mark.parametrize("delay_s", [0.0, 0.1])
def test_ctrl_c_while_a_program_is_compiled_is_raised_and_leaves_nothing(
    tmp_path, delay_s
):
    """KeyboardInterrupt, no lock or half a file stays, and the program can be run."""
    done = children.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "cache"), str(delay_s)],
        env={
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_POPLAR_FLAGS": f"--executable_cache_path={tmp_path / 'cache'}",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    interrupted, left, after = done.stdout.splitlines()
    assert (interrupted, left) == ("interrupted", "[]")
    assert after in ("(16, 16) 1", "(16, 16) 2")
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_processes_that_start_together_compile_once(tmp_path):
    """Into a folder that is not there yet."""
    folder = tmp_path / "a" / "b"
    counts = [ended(process)[0] for process in [start(folder) for _ in range(4)]]
    assert sorted(counts) == [(0, 1, 0), (0, 1, 0), (0, 1, 0), (1, 0, 0)]
    assert [path.suffix for path in folder.iterdir()] == [".poplar_exec"]


@pytest.mark.process
def test_a_damaged_file_is_compiled_again(tmp_path):
    """With one warning, and the file is whole afterwards."""
    folder = tmp_path / "cache"
    ended(start(folder))
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    counts, err = ended(start(folder))
    assert counts == (1, 0, 1)
    assert err.count("is not used") == 1
    assert ended(start(folder))[0] == (0, 1, 0)


@pytest.mark.process
def test_a_file_that_xla_cannot_load_is_replaced(tmp_path):
    """It is whole, and of the right program: the warning says that it is replaced."""
    folder = tmp_path / "cache"
    ended(start(folder))
    (path,) = folder.iterdir()
    entry = unpack(path.read_bytes())
    path.write_bytes(pack(dataclasses.replace(entry, executable=b"nothing of XLA's")))

    counts, err = ended(start(folder))
    assert counts == (1, 0, 1)
    assert err.count("and the file replaced") == 1
    assert ended(start(folder))[0] == (0, 1, 0)
    assert list(folder.iterdir()) == [path]
