"""Log lines of compilations, and executables that several processes use."""

import dataclasses
import json
import os
import re
import subprocess
import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT
from program_loops import configured, loop, stats, unique

from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.executable.program.file_format import pack, unpack
from ipufeed.executable.store import counters

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def fresh(clean_system):
    """No device holds a program, and the counters are at 0."""
    counters.reset_stats()


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


LEVELS = ("TF_POPLAR_VLOG_LEVEL", "TF_CPP_MIN_VLOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("", ""),
        ("TF_POPLAR_VLOG_LEVEL=1", "compiler 1, executable"),
        ("TF_CPP_MIN_VLOG_LEVEL=1", "compiler 1, executable"),
        ("TF_CPP_MAX_VLOG_LEVEL=2", "compiler 1, compiler 2, executable"),
        ("TF_CPP_VMODULE=poplar_executable=1,other=3", "executable"),
        ("TF_CPP_VMODULE=poplar_compiler=2", "compiler 1, compiler 2"),
        (
            "TF_CPP_VMODULE=poplar_*=1 TF_POPLAR_VLOG_LEVEL=none",
            "compiler 1, executable",
        ),
    ],
)
def test_the_verbose_log_has_two_units_with_levels(
    monkeypatch, capfd, variables, expected
):
    """Lines about compiling, and about what is on a device."""
    for name in (*LEVELS, "TF_CPP_VMODULE"):
        monkeypatch.delenv(name, raising=False)
    for variable in variables.split():
        name, _, value = variable.partition("=")
        monkeypatch.setenv(name, value)
    loop(float(next(unique)))[0](1)
    text = capfd.readouterr().err

    kinds = {
        "compiler 1": r"V poplar_compiler\] program.* compiled in \d",
        "compiler 2": r"V poplar_compiler\] program.*: \d+ bytes of HLO",
        "executable": r"V poplar_executable\] .* is on IPU 0",
    }
    found = [name for name, form in kinds.items() if re.search(form, text)]
    assert ", ".join(found) == expected


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
data = tf.data.Dataset.from_tensors(tf.ones([4])).repeat()
infeed = IPUInfeedQueue(data, device_ordinal={ordinal})
outfeed = IPUOutfeedQueue(device_ordinal={ordinal})
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
    out, err = process.communicate(timeout=DEADLOCK_S)
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
        timeout=DEADLOCK_S,
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
