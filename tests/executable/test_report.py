"""What autoReport promises: a folder for each compiled program, and no other."""

import json
import os
import shutil
import sys

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, ROOT
from report_programs import on_ipu

import ipufeed
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.system import system
from ipufeed.executable.program import engine_options
from ipufeed.executable.store.counters import reset_stats, stats

pytestmark = pytest.mark.usefixtures("clean_system")


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Switches reports on; gives a function that lists their folders."""
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "r")}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
    return lambda: sorted((tmp_path / "r").glob("tf_report__*"))


def profile(folder):
    return json.loads((folder / "profile.json").read_text())


def test_a_compiled_program_gets_a_report(reports):
    """With TensorFlow and the system, the memory, the counts and a picture."""

    def one_product(images, weights):
        return tf.tanh(tf.matmul(images, weights))

    on_ipu(one_product, tf.ones([8, 16]), tf.ones([16, 32]))

    (folder,) = reports()
    assert folder.name.endswith(f"__{os.getpid()}")
    framework = json.loads((folder / "framework.json").read_text())
    assert framework["TensorFlow"]["Version"] == tf.version.VERSION
    assert framework["System Information"]["Number of total cpus"] == os.cpu_count()
    found = profile(folder)
    assert found["program"]["name"] == "one_product"
    assert found["cost"]["run"]["matrix_flops"] == 2 * 8 * 16 * 32
    by_purpose = found["memory"]["by_purpose"]
    assert by_purpose["parameters"] == 4 * (8 * 16 + 16 * 32)
    assert by_purpose["outputs"] >= 4 * 8 * 32
    assert by_purpose["code"] > 0
    assert sum(by_purpose.values()) == found["memory"]["total_bytes"]
    names = {buffer["name"] for buffer in found["memory"]["buffers"]}
    assert {"images", "weights"} <= names
    assert (folder / "graph.svg").read_text().startswith("<svg")


def test_every_estimated_figure_is_named_so(reports):
    """No cycles or seconds of an IPU without the word."""

    def estimated_names(x):
        return tf.tanh(x) + 3.25

    on_ipu(estimated_names, tf.ones([5]))

    run = profile(reports()[0])["cost"]["run"]
    assert {"estimated_cycles", "estimated_seconds"} <= set(run)
    assert not {"cycles", "seconds"} & set(run)


def test_variables_are_separated_from_parameters(reports):
    """By what the function takes, not by names."""
    with tf.device("/device:IPU:0"):
        weight = tf.Variable(tf.ones([64, 3]))

    def step_with_variable(x):
        weight.assign_sub(0.5 * tf.ones_like(weight) * x)
        return tf.reduce_sum(weight)

    on_ipu(step_with_variable, tf.constant(2.0))

    by_purpose = profile(reports()[0])["memory"]["by_purpose"]
    assert by_purpose["variables"] == 4 * 64 * 3
    assert by_purpose["parameters"] == 4


def test_a_new_value_of_a_variable_is_in_its_memory(reports):
    """On an IPU, also of a program that writes it elsewhere, as it has queue calls."""
    queue = ipufeed.IPUOutfeedQueue()
    with tf.device("/device:IPU:0"):
        weights = [tf.Variable(tf.ones([64, 3])) for _ in range(2)]
        kept = tf.Variable(tf.ones([64, 3]))

    def step_with_queue(x):
        for each in weights:
            each.assign_sub(0.5 * tf.ones_like(each) * x)
        queue.enqueue(weights[0][0, 0])
        return kept * x

    on_ipu(step_with_queue, tf.constant(2.0))

    by_purpose = profile(reports()[0])["memory"]["by_purpose"]
    assert by_purpose["variables"] == 3 * 4 * 64 * 3
    # One result and the table of the results.
    assert 4 * 64 * 3 <= by_purpose["outputs"] < 2 * 4 * 64 * 3


def test_what_comes_from_the_cache_gets_no_report(reports):
    """The number of folders is the number of compilations."""
    reset_stats()
    make = lambda: lambda x: tf.sin(x) * 7.125  # noqa: E731
    on_ipu(make(), tf.ones([3]))

    on_ipu(make(), tf.ones([3]))

    assert stats().compiles == 1
    assert stats().memory_hits == 1
    assert len(reports()) == 1


def test_each_program_has_a_folder(reports):
    """Another batch size is another program, of the same name."""

    def same_name(x):
        return tf.cos(x) * 2.375

    on_ipu(same_name, tf.ones([3]))
    on_ipu(same_name, tf.ones([300]))

    sizes = {profile(each)["memory"]["by_purpose"]["parameters"] for each in reports()}
    assert sizes == {4 * 3, 4 * 300}


def test_the_same_program_again_keeps_its_folder(reports):
    """Once it has been forgotten it is compiled again; nothing is left of the folder."""

    def again(x):
        return tf.cos(x) * 2.4375

    on_ipu(again, tf.ones([3]))
    (folder,) = reports()
    shutil.rmtree(folder.parent)
    system.reset_ipu_configuration()
    on_ipu(again, tf.ones([3]))

    assert reports() == [folder]
    assert (folder / "profile.pop").read_text() == (folder / "profile.json").read_text()


def test_nothing_is_written_unless_it_is_requested(tmp_path, monkeypatch):
    """Also not into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)

    on_ipu(lambda x: tf.sin(x) * 1.625, tf.ones([3]))

    assert list(tmp_path.iterdir()) == []


def test_the_configuration_asks_for_reports_too(tmp_path):
    """Its options are the engine's, where the environment says nothing."""
    config = IPUConfig()
    config.compilation_poplar_options = {
        "autoReport.outputExecutionProfile": True,
        "autoReport.directory": str(tmp_path / "deep" / "er"),
    }
    config.configure_ipu_system()

    on_ipu(lambda x: tf.sin(x) * 1.75, tf.ones([3]))

    assert len(list((tmp_path / "deep" / "er").glob("tf_report__*"))) == 1


def test_a_report_that_cannot_be_written_is_one_warning(tmp_path, monkeypatch, caplog):
    """The program runs all the same."""
    (tmp_path / "file").write_text("")
    options = {"autoReport.all": "true", "autoReport.directory": f"{tmp_path}/file/x"}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))

    result = on_ipu(lambda x: x * 9.5, tf.ones([3]))

    assert result.numpy().tolist() == [9.5] * 3
    warnings = [
        each.getMessage() for each in caplog.records if each.levelname == "WARNING"
    ]
    assert len(warnings) == 1
    assert "report" in warnings[0]
    assert "file/x" in warnings[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoReport.al": "true"}, "Did you mean 'autoReport.all'"),
        ({"no.such": "1"}, "no engine option 'no.such'"),
        ({"autoReport.all": "perhaps"}, 'must be "true" or "false"'),
        ("[1]", "must be a JSON object"),
        ("{", "must be JSON"),
    ],
)
def test_an_invalid_option_refuses_the_program(monkeypatch, options, message):
    """Before anything is compiled, as an InternalError."""
    text = options if isinstance(options, str) else json.dumps(options)
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", text)
    reset_stats()

    with pytest.raises(tf.errors.InternalError, match=message):
        on_ipu(lambda x: x * 11.5, tf.ones([3]))

    assert stats().compiles == 0


def test_one_output_can_be_left_out_of_all():
    """`autoReport.all` is what the others default to."""
    everything_off = dict.fromkeys(engine_options.OUTPUTS, "false")

    assert engine_options.wanted_by({"autoReport.all": "true"})
    assert not engine_options.wanted_by({"autoReport.all": "true"} | everything_off)
    assert not engine_options.wanted_by({"debug.instrument": "true"})


@pytest.mark.process
def test_programs_of_the_original_get_reports_too(tmp_path):
    """`python -m ipufeed.run` is a way to run programs like any other."""
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    program = ROOT / "examples" / "ipu" / "training" / "training_loop_v2.py"

    children.run(
        [sys.executable, "-m", "ipufeed.run", str(program)],
        check=True,
        cwd=ROOT,
        timeout=DEADLOCK_S,
        env={**os.environ, "POPLAR_ENGINE_OPTIONS": json.dumps(options)},
    )

    assert len(list(tmp_path.glob("tf_report__*/profile.json"))) >= 1
