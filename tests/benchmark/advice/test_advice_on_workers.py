"""Advice on workers, pools and CPUs, and the result with its advice."""

from dataclasses import replace

import pytest
import tensorflow as tf
from slow_stages import advice_for, burns, codes, endless, explained, sleeps
from tensorflow.python.data.experimental.ops import testing

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.advice.advice import Case
from ipufeed.benchmark.advice.rules import find_advice
from ipufeed.benchmark.advice.verify import verify
from ipufeed.benchmark.advice.with_stages import with_stages
from ipufeed.benchmark.graph.edits import constant_value, interleave_calls, map_calls
from ipufeed.benchmark.graph.pipeline_graph import PipelineGraph, find_node
from ipufeed.benchmark.report.summary import summarize

pytestmark = pytest.mark.long


def slow_source():
    """16 ms for an element."""
    return endless().apply(testing.sleep(16_000))


def waits(seconds, calls):
    """Datasets that wait, in threads of the interleave's own."""
    return endless().interleave(
        lambda x: tf.data.Dataset.range(1000).apply(testing.sleep(int(seconds * 1e6))),
        cycle_length=calls,
        num_parallel_calls=calls,
        name="files",
    )


def with_pool(dataset, threads):
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)


def test_where_all_cpus_are_busy_nothing_parallel_is_proposed():
    """Only less work helps, and the stage with most of it is named."""

    def crunch(x):
        square = tf.fill([300, 300], tf.cast(x, tf.float32))
        return tf.reduce_sum(square @ square)

    explanation = explained(endless().map(crunch).prefetch(2), cut=False)
    # As on a machine that has no more CPUs than this pipeline has kept busy.
    model = replace(explanation.model, cpus=1.0, cpu_bound=True)
    full = Case(replace(explanation, model=model), 1)

    assert "no_cpu_left" in codes(find_advice(full))
    (found,) = [each for each in find_advice(full) if each.code == "no_cpu_left"]
    assert "all 1 CPUs are busy, most with `crunch`" in found.text
    # Where others have them, that is a warning of its own.
    assert "no_cpu_left" not in codes(find_advice(replace(full, usable_cpus=4)))


@pytest.mark.measured
@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(
            lambda: slow_source().map(sleeps(0.004), 4).batch(4).prefetch(2),
            id="parallel",
        ),
        pytest.param(lambda: endless().apply(testing.sleep(4_000)), id="source"),
        pytest.param(lambda: endless().batch(4).prefetch(2), id="free"),
        pytest.param(
            lambda: endless().batch(1000).map(lambda x: x * 2 + 1), id="many small"
        ),
        pytest.param(
            lambda: (
                endless()
                .interleave(
                    lambda x: endless().map(sleeps(0.004)),
                    cycle_length=4,
                    num_parallel_calls=4,
                )
                .apply(testing.sleep(16_000))
                .prefetch(2)
            ),
            id="parallel interleave",
        ),
    ],
)
def test_a_pipeline_with_nothing_wrong_gets_no_advice(dataset):
    """Whatever takes the time in it."""
    assert codes(advice_for(dataset(), memory_available=1 << 34)) == []


@pytest.mark.measured
@pytest.mark.parametrize(
    ("dataset", "edit"),
    [
        pytest.param(
            lambda: with_pool(endless().map(sleeps(0.006), 2), 8),
            "raise num_parallel_calls from 2 to 8 in map `decode`",
            id="map",
        ),
        pytest.param(
            lambda: waits(0.008, 4).prefetch(2),
            "raise num_parallel_calls from 4 to 16 (and cycle_length to at least that)",
            id="interleave",
        ),
    ],
)
def test_workers_that_all_wait_are_to_be_more(dataset, edit):
    """While CPUs are idle, a number that was written is too small."""
    (found,) = advice_for(dataset())

    assert found.code == "more_calls"
    assert edit in found.text
    assert 2 < found.gain < 5


@pytest.mark.measured
def test_an_interleave_is_not_to_read_more_datasets_than_there_are():
    """Six files: six calls, and none to be raised from there."""
    few = tf.data.Dataset.range(6)

    def read(calls):
        return few.interleave(
            lambda x: endless().apply(testing.sleep(8_000)), calls, None, calls
        )

    (found,) = advice_for(read(2))
    assert "from 2 to 6" in found.text
    assert codes(advice_for(read(6))) == []


def test_edits_of_calls_are_made_in_the_graph_as_written():
    """The number, and an interleave's cycle where it is shorter."""
    graph = PipelineGraph.of(waits(0.001, 4).map(sleeps(0.001), 2), rewritten=False)
    files, decode = (
        next(each.node for each in graph.steps if each.kind.startswith(kind))
        for kind in ("ParallelInterleave", "ParallelMap")
    )
    interleave_calls(graph.graph, files, 16)
    map_calls(graph.graph, decode, 8)

    inputs = find_node(graph.graph, files).input
    numbers = [constant_value(graph.graph, inputs[place]) for place in (-5, -1)]
    assert numbers == [16, 16]
    assert constant_value(graph.graph, find_node(graph.graph, decode).input[-1]) == 8
    assert next(iter(graph.with_options(graph.graph, graph.root))) is not None
    with pytest.raises(ValueError, match="must be a ParallelMapDatasetV2, got"):
        map_calls(graph.graph, files, 8)


@pytest.mark.measured
def test_a_pool_full_of_functions_that_wait_is_to_be_larger():
    """No number of calls helps there; --verify sets the option from outside."""
    dataset = with_pool(endless().map(sleeps(0.006), 4).map(lambda x: x + 1, 2), 2)
    explanation = explained(dataset, 2.0)
    found = find_advice(Case(explanation, 4))

    assert codes(found) == ["small_pool"]
    assert "options.threading.private_threadpool_size = 8" in found[0].text
    assert found[0].gain > 1.5
    verify(found, dataset, explanation.graph, 2.0, explanation.rate)
    assert found[0].measured_gain is not None, found[0].note
    assert found[0].measured_gain > 1.3


@pytest.mark.measured
def test_a_pool_that_serial_functions_fill_gets_one_advice_to_be_larger():
    """Three threads ask for 3 ms each of two threads that run functions."""
    dataset = endless().map(sleeps(0.003)).prefetch(2)
    dataset = dataset.map(sleeps(0.003)).prefetch(2).map(sleeps(0.003))
    found = find_advice(Case(explained(with_pool(dataset, 2), 2.0, cut=False), 4))

    assert codes(found) == ["small_pool"]
    assert 1.2 < found[0].gain < 1.8


@pytest.mark.measured
def test_workers_that_compute_are_not_to_be_more():
    """They want CPUs, and in Python the one interpreter."""
    found = codes(advice_for(with_pool(endless().map(burns(0.004), 2), 2)))

    assert "small_pool" not in found
    assert "more_calls" not in found


@pytest.mark.parametrize(("cpu", "computes"), [(0.9, True), (0.2, False)])
def test_calls_in_python_compute_if_together_they_keep_the_interpreter_busy(
    cpu, computes
):
    """Each of four waits for the others in three quarters of its time."""
    explanation = explained(endless().map(sleeps(0.004), 4), cut=False)
    (stage,) = [each for each in explanation.stages if each.name == "decode"]
    stage.seconds_per_element = 4 * explanation.model.period
    stage.cpu_seconds_per_element = cpu * explanation.model.period

    assert Case(explanation, 4).computes(stage) is computes


@pytest.mark.parametrize(
    ("cpu", "idle", "advised"),
    [(0.9, 1.0, True), (2.5, 1.0, False), (0.9, 0.0, False), (0.2, 1.0, False)],
)
def test_parallel_calls_in_python_that_share_one_cpu_are_to_be_tensorflows(
    cpu, idle, advised
):
    """Not those that use several, as NumPy does; nor where others have the CPUs."""
    explanation = explained(endless().map(sleeps(0.004), 4), cut=False)
    (stage,) = [each for each in explanation.stages if each.name == "decode"]
    model = replace(explanation.model, idle=idle, cpu_bound=False)
    stage.seconds_per_element = 4 * model.period
    stage.cpu_seconds_per_element = cpu * model.period
    found = codes(find_advice(Case(replace(explanation, model=model), 4)))

    assert ("python_function" in found) == advised


def test_a_function_that_computes_for_a_third_of_its_time_waits_where_cpus_are_idle():
    """Where they are not, it may have waited for one of them."""
    explanation = explained(endless().map(sleeps(0.004)), cut=False)
    (stage,) = [each for each in explanation.stages if each.name == "decode"]
    stage.cpu_seconds_per_element = 0.35 * stage.seconds_per_element
    codes_of = {}
    for idle in (0.0, 1.0):
        model = replace(explanation.model, idle=idle)
        found = find_advice(Case(replace(explanation, model=model), 4))
        codes_of[idle] = [each.code for each in found]

    assert codes_of == {0.0: ["python_function"], 1.0: ["serial_map"]}


@pytest.fixture(scope="module")
def verified():
    """A serial map, measured, explained, and its advice tried."""
    dataset = endless().map(sleeps(0.004, "decode")).batch(2)
    result = measure(dataset, Settings(seconds=3), name="serial")
    return with_stages(result, dataset, verified=True, what_if=["decode=2x"])


def test_the_result_has_stages_advice_and_predictions(verified):
    """All of the schema's keys, ready for JSON."""
    first = verified.stages[0]

    assert first["name"] == "decode"
    assert {
        "name",
        "kind",
        "share",
        "seconds_per_element",
        "cpu_seconds_per_element",
        "parallelism",
        "buffered_bytes",
        "ceiling_elements_per_second",
        "advice",
    } <= set(first)
    assert verified.what_if[0]["predicted_elements_per_second"] > 0
    assert '"stages"' in verified.to_json()


@pytest.mark.measured
def test_advice_that_was_tried_shows_its_gain(verified):
    """A map that sleeps is as much faster as it has workers."""
    first = verified.advice[0]

    assert first["code"] == "serial_map"
    assert first["held"] is True
    assert first["measured_gain"] > 1.3
    assert "advice: parallelise map `decode`" in summarize(verified)
    assert verified.what_if[0]["predicted_elements_per_second"] == pytest.approx(
        2 * verified.steady["elements_per_second"], rel=0.25
    )


def test_the_summary_fits_the_terminal(verified, monkeypatch):
    """The table and the prediction, in 79 columns."""
    monkeypatch.setattr("ipufeed.render.terminal.columns", lambda stream: 80)
    lines = summarize(verified).splitlines()

    assert any(line.split()[:1] == ["decode"] for line in lines)
    assert any(line.startswith("what if decode=2x:") for line in lines)
    assert max(map(len, lines)) < 80


def test_a_short_measurement_has_no_stages():
    """Half of it is too short to find them out."""
    dataset = endless().map(sleeps(0.002))
    result = measure(dataset, Settings(seconds=0.3))

    assert with_stages(result, dataset).stages is None
    asked = with_stages(result, dataset, what_if=["decode=2x"])
    assert "stages_unknown" in [each["code"] for each in asked.warnings]
