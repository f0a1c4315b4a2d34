"""Settings and datasets that `measure` refuses, and what a result's shares are of."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S, sleeping
from warning_codes import codes

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.device.measure import measure_through
from ipufeed.benchmark.measuring import measure as measurement
from ipufeed.benchmark.measuring import run


def test_measuring_does_not_change_the_dataset():
    """The same dataset can be iterated, and measured again, with the same counts."""
    dataset = tf.data.Dataset.range(50).batch(5)

    first, second = measure(dataset), measure(dataset)

    assert len(list(dataset)) == 10
    assert first.elements == second.elements == 10


def test_ctrl_c_keeps_what_was_measured():
    """KeyboardInterrupt carries the result so far, long before the dataset's end."""
    import _thread

    from ipufeed.errors import MeasurementInterrupted

    seen = []

    def interrupt_once(progress):
        if progress.elements >= 5 and not seen:
            seen.append(progress.elements)
            _thread.interrupt_main()

    start = time.monotonic()
    with pytest.raises(MeasurementInterrupted) as caught:
        measure(sleeping(0.01), Settings(seconds=1000), on_progress=interrupt_once)

    assert time.monotonic() - start < DEADLOCK_S
    assert caught.value.result.elements >= 5
    assert "interrupted" in codes(caught.value.result)


def test_two_measurements_at_a_time_do_not_mix():
    """Runs are apart: each has its own counts and its own stop."""
    results = {}

    def run(count):
        results[count] = measure(tf.data.Dataset.range(count)).elements

    threads = [threading.Thread(target=run, args=(count,)) for count in (100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert results == {100: 100, 200: 200, 300: 300}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, r"`epochs` must be in \[1, 2147483648\], got 0"),
        ({"elements": -3}, r"`elements` must be in .* got -3"),
        ({"seconds": float("nan")}, r"`seconds` must be in \(0, 1e9\], got nan"),
        ({"seconds": 0}, r"`seconds` must be in"),
        ({"items_per_element": float("inf")}, r"`items_per_element` must be in"),
        ({"passes": 2, "epochs": 3}, "`passes` excludes `epochs` and `elements`"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings, message):
    """The message names the setting, its range and the value."""
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


@pytest.mark.parametrize("value", [True, 2.5, "3", np.float64(2), np.True_])
def test_a_count_that_is_not_an_int_is_refused(value):
    """A bool is not a count, nor is a text or a fraction."""
    with pytest.raises(TypeError, match="`epochs` must be an int, got"):
        Settings(epochs=value)


def test_numbers_of_numpy_are_numbers():
    """Counts come from len() or from an array; the JSON holds plain ones."""
    settings = Settings(epochs=np.int64(2), elements=np.uint8(5), seconds=np.float32(9))

    assert settings == Settings(epochs=2, elements=5, seconds=9.0)
    assert [type(settings.epochs), type(settings.seconds)] == [int, float]


@pytest.mark.parametrize(
    ("settings", "advice"),
    [({"seconds": 1}, r"Settings\(\*\*settings\)"), (5, r"Settings\(seconds=5\)")],
)
def test_what_is_not_a_settings_object_is_refused_with_advice(settings, advice):
    """A dict is taken for keyword arguments easily."""
    with pytest.raises(
        TypeError, match=f"`settings` must be a Settings, got.*{advice}"
    ):
        measure(tf.data.Dataset.range(3), settings)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": 5}, "`name` must be a str or None, got int 5"),
        ({"on_progress": "x"}, "`on_progress` must be a function, got str 'x'"),
        ({"recording": []}, r"`recording` must be a Recording or None, got list \[\]"),
        ({"dataset": np.int64(3)}, r"`dataset` must be a tf.data.Dataset.* got int64"),
    ],
)
@pytest.mark.parametrize("function", [measure, measure_through])
def test_arguments_of_other_types_are_refused(function, arguments, words):
    """Before anything is run."""
    with pytest.raises(TypeError, match=words):
        function(**{"dataset": tf.data.Dataset.range(3), **arguments})


def test_a_function_that_is_traced_is_not_a_place_to_measure():
    """It would run at the tracing, once, and not when the function is called."""
    dataset = tf.data.Dataset.range(3)

    @tf.function
    def train():
        measure(dataset)

    with pytest.raises(RuntimeError, match=r"inside a tf\.function.* Call it outside"):
        train()


def test_a_dataset_of_a_function_that_was_traced_is_refused():
    """It belongs to a graph that cannot run any more."""
    leaked = []

    @tf.function
    def train():
        leaked.append(tf.data.Dataset.range(3))

    train()

    with pytest.raises(RuntimeError, match=r"made inside a tf\.function.* outside"):
        measure(leaked[0])


def test_a_graph_is_measured_from_everywhere():
    """What a dataset was made in says how it runs, not what measure() is called in."""
    eager = tf.data.Dataset.range(5)
    with tf.Graph().as_default():
        symbolic = tf.data.Dataset.range(7)

        assert measure(eager).elements == 5
        assert measure(symbolic).elements == 7
    assert measure(symbolic).elements == 7


def test_passes_that_differ_are_warned_of():
    """The pass that fills a cache is not like those that read it."""
    dataset = sleeping(0.02).take(40).cache()

    result = measure(dataset, Settings(passes=3))
    first, *others = result.steady["pass_rates"]

    assert "passes_differ" in codes(result)
    assert first < 50 < max(others)  # a pass that other load delays is not like it
    assert [epoch["elements_processed"] for epoch in result.epochs] == [40] * 3


def test_shares_are_of_the_time_that_they_belong_to():
    """No more than all of the time is copying, and no more CPUs are busy than there are."""
    dataset = tf.data.Dataset.from_tensors(tf.zeros([1 << 23])).repeat()

    result = measure(dataset, Settings(epochs=1, elements=40))

    assert 0 < result.memcpy["share"] <= 1
    assert 0 < result.resources["cpus_busy"] <= result.machine["usable_cpus"]
    assert 0 <= result.queue["starved_share"] + result.queue["blocked_share"] <= 2


def with_other_times(monkeypatch, change):
    """Changes what the native op has measured before Python reads it."""

    def changed(dataset, attributes, on_progress):
        raw, interruption = run.run_measurement(dataset, attributes, on_progress)
        change(raw)
        return raw, interruption

    monkeypatch.setattr(measurement, "run_measurement", changed)


def test_the_fractions_of_the_queue_are_of_the_window_in_which_waits_count(monkeypatch):
    """What the room for the copies took, before it, is in neither."""

    def late(raw):
        counters = raw.counters
        counters["first_ns"] = counters["steady_ns"] - 10**10
        counters["starved_ns"] = (counters["finished_ns"] - counters["steady_ns"]) // 2

    with_other_times(monkeypatch, late)
    result = measure(sleeping(0.01), Settings(seconds=0.2))

    assert result.queue["starved_share"] == pytest.approx(0.5, abs=0.001)


def test_a_short_run_is_no_more_than_a_magnitude(monkeypatch):
    """A millisecond gives a rate with a warning, and no cause is blamed for it."""

    def in_a_millisecond(raw):
        raw.stamps[:] = raw.stamps[0] + 1000 * np.arange(1000)

    with_other_times(monkeypatch, in_a_millisecond)
    result = measure(tf.data.Dataset.range(1000))

    assert "short_run" in codes(result)
    assert not {"not_steady", "busy_machine", "few_elements"} & codes(result)
    assert result.steady["left_out"] == []


def test_the_queues_capacity_is_the_limit_in_force():
    """Small elements have a longer feed, 32 others fit; huge ones: test_large_elements."""
    capacities = [
        measure(
            tf.data.Dataset.from_tensors(tf.zeros([size], tf.uint8)).repeat(),
            Settings(epochs=1, elements=4),
        ).queue["capacity"]
        for size in (8, 1025)
    ]

    assert capacities == [1024, 32]


@pytest.mark.parametrize(
    ("thing", "advice"),
    [
        ([1, 2], "got list. A loader is what a `for` loop reads; wrap data in memory"),
        (lambda: None, "got function. It can be called"),
        (tf.data.Dataset, "It is the class `DatasetV2`"),
    ],
)
def test_what_is_not_a_dataset_is_refused_with_advice(thing, advice):
    """The message says what it got, and how to make a dataset of it."""
    with pytest.raises(TypeError, match=advice):
        measure(thing)
