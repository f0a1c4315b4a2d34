"""What attribution promises: every kind of step by its name, the slow one first.

The sources sleep, so that a busy machine changes little. Tests that judge which stage is
slow, and by how much, are marked `measured`.
"""

import time

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from ipufeed.benchmark.stages import measure_alone
from ipufeed.benchmark.stages.explain import budget, explain

SECONDS = 0.8  # for each run; elements take 1 to 12 ms
SLOW_S = 0.008


def explained(dataset, seconds=SECONDS, **options):
    """What holds it back; on a busy machine perhaps only when it is given more time."""
    for share in (1, 3, 9):
        found = explain(dataset, share * seconds, **options)
        if found is not None:
            return found
    raise AssertionError("no explanation")


def pause(seconds, name):
    """A map function of that name, which sleeps in Python."""

    def sleep(value):
        time.sleep(seconds)
        return value

    def function(x):
        y = tf.numpy_function(sleep, [x], x.dtype)
        y.set_shape(x.shape)
        return y

    function.__name__ = name
    return function


def endless():
    return tf.data.Dataset.range(10**9)


def quick(dataset):
    """Behind a stage that takes some time, too: it must not come first."""
    return dataset.map(pause(0.0003, "quick"))


def slow_batch(dataset):
    """Sleeps for each batch inside the batch's input."""
    return dataset.map(pause(SLOW_S / 2, "slow")).batch(2)


def generator():
    number = 0
    while True:
        time.sleep(SLOW_S)
        yield np.int64(number)
        number += 1


def with_options(dataset, **values):
    options = tf.data.Options()
    options.autotune.enabled = values.get("autotune", True)
    for name, value in values.items():
        if name != "autotune":
            setattr(options.experimental_optimization, name, value)
    return dataset.with_options(options)


SLOW = pause(SLOW_S, "slow")
SPEC = tf.TensorSpec([], tf.int64)

PIPELINES = {
    "map": lambda: quick(endless().map(SLOW)),
    "parallel map": lambda: quick(endless().map(SLOW, num_parallel_calls=2)),
    "autotuned map": lambda: quick(endless().map(SLOW, tf.data.AUTOTUNE)),
    "interleave": lambda: quick(
        endless().interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(5).map(SLOW),
            cycle_length=2,
            name="slow",
        )
    ),
    "parallel interleave": lambda: quick(
        endless().interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(5).map(SLOW),
            cycle_length=2,
            num_parallel_calls=2,
            name="slow",
        )
    ),
    "flat_map": lambda: quick(
        endless().flat_map(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(5).map(SLOW), name="slow"
        )
    ),
    "batch": lambda: slow_batch(endless()).map(lambda x: x + 1),
    "shuffle": lambda: quick(endless().map(SLOW).shuffle(5)),
    "cache": lambda: (
        quick(endless().take(10).map(SLOW, name="not_seen").cache()).repeat().map(SLOW)
    ),
    "prefetch": lambda: quick(endless().map(SLOW).prefetch(2)),
    "filter": lambda: quick(endless()).filter(lambda x: SLOW(x) >= 0, name="slow"),
    "zip": lambda: tf.data.Dataset.zip(quick(endless()), endless().map(SLOW)),
    "window": lambda: (
        endless()
        .map(pause(SLOW_S / 2, "slow"))
        .window(2)
        .flat_map(lambda window: window.batch(2))
    ),
    "concatenate": lambda: endless().take(2).concatenate(endless().map(SLOW)),
    "repeat of a short dataset": lambda: quick(endless().take(7).map(SLOW).repeat()),
    "from_generator": lambda: quick(
        tf.data.Dataset.from_generator(generator, output_signature=SPEC, name="slow")
    ),
    "a source that sleeps": lambda: quick(
        endless().apply(testing.sleep(round(SLOW_S * 1e6)))
    ),
    "no AUTOTUNE": lambda: with_options(
        quick(endless().map(SLOW, num_parallel_calls=2)), autotune=False
    ),
    "fused maps": lambda: with_options(
        endless().map(pause(0.0003, "quick")).map(lambda x: x + 1).map(SLOW),
        map_fusion=True,
    ),
    "map and batch": lambda: (
        endless().map(pause(SLOW_S / 2, "slow"), num_parallel_calls=1).batch(2)
    ),
}
NAMES = {"a source that sleeps": "Sleep 2"}


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("last", ["map", "map and batch"])
def test_without_autotune_the_last_stage_has_its_time(last, threads):
    """The pipeline's end is parallel, and its functions run in the pipeline's own pool."""
    dataset = endless().map(SLOW, num_parallel_calls=2)
    if last == "map and batch":
        dataset = dataset.batch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    dataset = with_options(dataset.with_options(options), autotune=False)
    explanation = explained(dataset, 0.4, cut=False)
    (slow,) = [each for each in explanation.stages if "slow" in each.name]
    run = explanation.run

    assert slow.share > 0.5
    assert run.readings[slow.node].is_async == 1
    assert run.readings[slow.node].model_ns > 0.5 * run.wall_ns


@pytest.mark.parametrize("kind", PIPELINES)
def test_every_kind_of_step_is_a_stage_of_its_name(kind):
    """With AUTOTUNE, options and fusions, too; shares are parts of one whole."""
    explanation = explained(PIPELINES[kind](), 0.3, cut=False)
    names = [stage.name for stage in explanation.stages]

    assert any(NAMES.get(kind, "slow") in name for name in names), names
    assert all(stage.share >= 0 for stage in explanation.stages)
    assert 0 < sum(stage.share for stage in explanation.stages) <= 1.0 + 1e-6


@pytest.mark.measured
@pytest.mark.parametrize("kind", PIPELINES)
def test_the_slow_stage_comes_first_by_its_name(kind):
    """Whatever kind of step it is, and with AUTOTUNE, options and fusions."""
    explanation = explained(PIPELINES[kind](), cut=False)
    expected = NAMES.get(kind, "slow")

    assert explanation is not None
    first = explanation.stages[0]
    assert expected in first.name, [vars(stage) for stage in explanation.stages]
    assert first.share > 0.5
    assert sum(stage.share for stage in explanation.stages) <= 1.0 + 1e-6


def test_records_are_named_by_what_they_are(tmp_path):
    """TFRecordDataset is a flat_map inside; it is called TFRecord all the same."""
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(100):
            writer.write(b"record")
    dataset = (
        tf.data.TFRecordDataset([path])
        .repeat()
        .map(pause(0.002, "decode"), name="parsed")
    )

    explanation = explained(dataset, cut=False)

    kinds = {stage.name: stage.kind for stage in explanation.stages}
    assert kinds["TFRecord"] == "TFRecord"
    assert "parsed" in kinds


@pytest.mark.measured
def test_a_stage_behind_a_slower_parallel_one_has_no_share():
    """2 ms in a thread of its own are overlapped by 12 ms."""
    dataset = (
        endless().map(pause(0.002, "hidden")).prefetch(4).map(pause(0.012, "slow"))
    )

    shares = {s.name: s.share for s in explained(dataset, cut=False).stages}

    assert shares["hidden"] < 0.1
    assert shares["slow"] > 0.8


@pytest.mark.measured
def test_a_cut_confirms_the_first_stage():
    """Alone, fed from a cache, it gives what the probes measured."""
    dataset = endless().map(pause(0.002, "first")).map(pause(0.004, "slow"))

    first = explained(dataset, 4.0).stages[0]

    assert first.name == "slow"
    assert first.confirmed
    assert first.ceiling_elements_per_second == pytest.approx(
        1 / first.seconds_per_element, rel=0.3
    )


def test_the_dataset_is_as_it_was():
    """Probes are put into a copy; the user's functions are not traced again."""
    traced = []

    def function(x):
        traced.append(x)
        return SLOW(x)

    dataset = endless().map(function)
    before = len(traced)
    explained(dataset)

    assert len(traced) == before
    assert int(next(iter(dataset))) == 0


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(lambda: tf.data.Dataset.range(0), id="empty"),
        pytest.param(lambda: tf.data.Dataset.range(1), id="one element"),
        pytest.param(
            lambda: endless().apply(testing.sleep(3_600_000_000)), id="never starts"
        ),
    ],
)
def test_what_cannot_be_explained_gives_nothing(dataset):
    """No element, or none in time: no stages, and no waiting for them."""
    explanation = explain(dataset(), SECONDS)

    assert explanation is None or explanation.run.elements >= 3


def test_a_dataset_that_fails_gives_nothing():
    """The measurement has reported the failure."""
    dataset = endless().map(
        lambda x: tf.debugging.check_numerics(tf.math.log(-1.0), "no")
    )

    assert explain(dataset, SECONDS) is None


def test_a_dataset_of_a_graph_gives_nothing():
    """Its values are there only in a session."""
    with tf.Graph().as_default():
        assert explain(tf.data.Dataset.range(10), SECONDS) is None


def test_attribution_takes_half_of_the_measuring_time_and_five_seconds_at_most():
    """So that it can be on by default."""
    assert budget(2.0) == 1.0
    assert budget(3600.0) == 5.0


def test_what_runs_inside_a_step_is_named():
    """The time of each file's map is in that of the interleave around it."""

    def one(_):
        return endless().map(pause(0.002, "parse")).map(lambda x: x + 1, name="tidy")

    dataset = endless().interleave(one, cycle_length=2, name="files")
    (files,) = [s for s in explained(dataset, cut=False).stages if s.name == "files"]

    assert files.inside == ["parse", "tidy"]


@pytest.mark.measured
def test_datasets_inside_an_interleave_cost_what_they_wait():
    """The books of tf.data leave out what a dataset waits; a probe inside does not."""
    dataset = (
        endless()
        .interleave(
            lambda _: endless().apply(testing.sleep(8_000)),
            cycle_length=4,
            num_parallel_calls=4,
            name="files",
        )
        .map(pause(0.006, "post"))
    )
    found = explained(dataset, 2.0, cut=False)
    node = {stage.name: stage.node for stage in found.stages}

    files = found.model.costs[node["files"]]
    assert found.stages[0].name == "post"
    assert files.seconds == pytest.approx(0.008, rel=0.3)
    assert found.model.predict({node["post"]: 0.0}) == pytest.approx(3, rel=0.3)


@pytest.mark.measured
def test_two_interleaves_of_one_function_have_different_names():
    """Each has a probe of its own in a copy of the function."""

    @tf.function
    def files(number):
        return endless().apply(testing.sleep(2_000)).map(lambda x: x + number)

    def both(name):
        return endless().interleave(
            files, cycle_length=2, num_parallel_calls=2, name=name
        )

    dataset = tf.data.Dataset.zip(both("left"), both("right").take(10**9))
    found = explained(dataset, cut=False)
    run = found.run
    inside = [
        run.readings[stage.node].inner_wall_ns / run.readings[stage.node].elements
        for stage in found.stages
        if stage.name in ("left", "right")
    ]

    assert inside == pytest.approx([2e6, 2e6], rel=0.5)


@pytest.mark.parametrize(
    ("alone", "confirmed", "ceiling"), [(0.5, False, 1), (0.95, True, 1), (2, True, 2)]
)
def test_no_ceiling_is_below_the_rate_of_the_pipeline(
    monkeypatch, alone, confirmed, ceiling
):
    """A step that seems slower alone than the whole has been slowed by the looking."""
    rate = 100.0
    monkeypatch.setattr(measure_alone, "measure_alone", lambda *_: alone * rate)
    # Many elements: those at the edges of the run hardly count.
    first = explained(endless().map(pause(0.001, "slow")), rate=rate).stages[0]

    assert first.confirmed is confirmed
    if confirmed:
        # The step has begun an element or two more than the pipeline has given.
        assert first.ceiling_elements_per_second == pytest.approx(
            ceiling * rate, rel=0.1
        )
    assert first.ceiling_elements_per_second >= rate


def test_the_step_that_works_has_the_name_of_a_generator():
    """`from_generator` is three steps, all of the name that it was given."""
    dataset = tf.data.Dataset.from_generator(
        generator, output_signature=tf.TensorSpec([], tf.int64), name="numbers"
    )
    first = explained(dataset, cut=False).stages[0]

    assert first.name == "numbers"
    assert first.inside == []
