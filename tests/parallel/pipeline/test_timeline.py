"""What the timeline shows is what has happened: when each stage computed, and when not."""

import html
import itertools
import re

import pytest
import tensorflow as tf
from models import alone, v1
from replicated import configure

from ipufeed.device.program import clock
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.executable.tracing import recorder
from ipufeed.executable.tracing.chrome import chrome_trace, on_ipus
from ipufeed.executable.tracing.events import Kind
from ipufeed.parallel.pipeline.options import OptimizerFunctionOutput
from ipufeed.parallel.pipeline.pipeline import pipeline
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.parallel.timelines import timeline
from ipufeed.parallel.timelines.slices import Execution, Slice
from ipufeed.parallel.timelines.timeline import Timeline
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue

pytestmark = pytest.mark.long

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule
WAIT_S = 0.004
WAIT_NS = round(WAIT_S * 1e9)


class SlowDescent(v1.train.GradientDescentOptimizer):
    """An update that takes a while."""

    def apply_gradients(self, pairs, *arguments, **keywords):
        pairs = [
            (clock.wait(gradient, WAIT_S), variable) for gradient, variable in pairs
        ]
        return super().apply_gradients(pairs, *arguments, **keywords)


def program_of(stages, count, train=True, dataset=None, **arguments):
    """What runs a pipeline of `stages` stages, each of which waits in both directions."""
    if dataset is None:
        dataset = tf.data.Dataset.from_tensors((1.0, 2.0)).repeat()
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()
    _ = infeed.initializer
    strategy = IPUStrategy()
    with strategy.scope():
        weights = [tf.Variable(1.0) for _ in range(stages)]

    def stage(number):
        def run(x, y):
            x = clock.wait(x * weights[number], WAIT_S)
            return x - y if number == stages - 1 else (x, y)

        return run

    @tf.function(jit_compile=True)
    def program():
        return pipeline(
            [stage(number) for number in range(stages)],
            count,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=(
                lambda loss: OptimizerFunctionOutput(SlowDescent(0.01), loss)
            )
            if train
            else None,
            **arguments,
        )

    def run():
        strategy.run(program)
        return alone(outfeed.dequeue())

    return run


def overlap(one, other):
    """Nanoseconds that two slices or events have in common; negative if there is a gap."""
    return min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)


@pytest.mark.parametrize(
    ("kind", "train", "mapping"),
    [
        (GROUPED, False, [0, 1, 2]),
        (GROUPED, True, [0, 1, 2]),
        (INTERLEAVED, True, [0, 1, 2]),
        (SEQUENTIAL, True, [0, 1, 2]),
        (GROUPED, False, [0, 0, 1]),
        (GROUPED, True, [0, 1, 0]),
        (SEQUENTIAL, True, [0, 0, 0]),
    ],
)
def test_a_stage_is_at_work_for_as_long_as_it_computes(
    clean_system, kind, train, mapping
):
    """From its inputs to its outputs, on any stage; one stage of an IPU at a time."""
    configure(4 if max(mapping) > 1 else max(mapping) + 1)
    run = program_of(3, 6, train, device_mapping=mapping, pipeline_schedule=kind)
    run()
    with timeline.record() as executed:
        run()

    assert len(executed.slices) == 6 * (6 if train else 3)
    for each in executed.slices:
        assert each.end_ns - each.start_ns >= WAIT_NS, each
    for ipu in set(mapping):
        own = [each for each in executed.slices if each.ipu == ipu]
        for one, after in itertools.pairwise(own):
            assert overlap(one, after) <= 0
    shares = executed.utilisation()
    assert sorted(shares) == sorted(set(mapping))
    assert all(0 < share.ideal <= 1 for share in shares.values())
    if kind is GROUPED and not train and mapping == [0, 1, 2]:
        assert {share.ideal for share in shares.values()} == {6 / 8}


def test_a_weight_update_is_drawn_next_to_the_stages(clean_system):
    """From the last gradient to the new weights, once for each execution."""
    configure(2)
    run = program_of(2, 4, repeat_count=3)
    run()
    with timeline.record() as executed:
        run()

    assert len(executed.executions) == len(executed.updates) == 3
    for execution, update in zip(executed.executions, executed.updates, strict=True):
        assert update.end_ns - update.start_ns >= WAIT_NS
        assert overlap(execution, update) <= 0
        assert all(overlap(each, update) <= 0 for each in executed.slices)


def test_waits_for_feeds_are_not_work(clean_system):
    """Neither for the next element, nor for room for a result."""
    configure(2)
    run = program_of(2, 4, train=False)
    run()
    recorder.start()
    run()
    events, _ = recorder.stop()

    stages = [each for each in events if each.kind is Kind.STAGE]
    feeds = [
        each
        for each in events
        if each.kind in (Kind.HOST_TO_DEVICE, Kind.DEVICE_TO_HOST)
    ]
    assert (len(stages), len(feeds)) == (8, 8)
    for feed in feeds:
        own = "F0" if feed.kind is Kind.HOST_TO_DEVICE else "F1"
        for stage in stages:
            if stage.name.startswith(own):
                assert overlap(feed, stage) <= 0


def test_the_values_are_those_without_marks(clean_system):
    """What passes through them comes out as it was: inputs, kept and sent tensors."""
    configure(2)
    results = [
        program_of(2, 4, pipeline_schedule=kind, repeat_count=2)()
        for kind in PipelineSchedule
    ]

    w0 = w1 = 1.0
    expected = []
    for _ in range(2):
        expected += [w0 * w1 - 2.0] * 4
        w0, w1 = w0 - 0.01 * 4 * w1, w1 - 0.01 * 4 * w0
    for found in results:
        assert found.numpy().tolist() == pytest.approx(expected, rel=1e-6)


def test_a_chrome_trace_has_executions_and_updates(clean_system):
    """Rows in addition to those of the stages."""
    configure(2)
    run = program_of(2, 4)
    run()
    recorder.start()
    run()
    events, dropped = recorder.stop()

    found = chrome_trace(events, dropped, events[0].start_ns)["traceEvents"]
    names = {each["name"] for each in found}
    rows = {each["args"]["name"] for each in found if each["name"] == "thread_name"}
    assert "Grouped training, 4 mini-batches, stages on IPUs 0 1" in names
    assert {"weight update", "mini-batch 3"} <= names
    assert {"IPU 0, update on chip 0", "IPU 0, B1 on chip 1"} <= rows


# ---- Without a device


def made(kind="Grouped", **changes):
    """A timeline of two IPUs, each half of the time at work."""
    slices = [Slice(f"F{n}", n, 0, n * 1000, n * 1000 + 1000) for n in range(2)]
    text = f"{kind} inference, 1 mini-batches, stages on IPUs 0 1"
    return Timeline(
        **({"slices": slices, "executions": [Execution(text, 0, 0, 9)]} | changes)
    )


def test_a_copys_execution_has_the_ipus_that_it_runs_on():
    """Its schedule counts from its first; other words are left as they are."""
    schedule = "Grouped training, 4 mini-batches, stages on IPUs 0 1+2"

    assert on_ipus(schedule, 0) == schedule
    assert on_ipus(schedule, 4).endswith("4 mini-batches, stages on IPUs 4 5+6")
    assert on_ipus("schedule 7", 2) == "schedule 7"


def test_utilisation_has_its_ideal():
    """It is a number, and writes both."""
    share = made().utilisation()[1]

    assert share == share.ideal == 0.5
    assert repr(share) == "0.500 (ideal 0.500)"
    assert str(share) == "50.0 % (50.0 %)"


def test_the_ideal_of_several_schedules_is_not_known():
    """Nor that of none."""
    executions = [
        *made().executions,
        Execution("Grouped inference, 4 mini-batches, stages on IPUs 0 1", 0, 0, 9),
    ]

    assert made(executions=executions).utilisation()[0].ideal is None
    assert repr(made(executions=[]).utilisation()[0]) == "0.500"


def test_the_ideal_of_a_copy_is_that_of_its_ipus():
    """The second copy's begin behind those of the first."""
    slices = [Slice("F0", 2, 0, 0, 1000), Slice("F1", 3, 0, 1000, 2000)]
    text = "Grouped inference, 4 mini-batches, stages on IPUs 0 1"
    shares = Timeline(slices, [], [Execution(text, 2, 0, 9)]).utilisation()

    assert {ipu: share.ideal for ipu, share in shares.items()} == {2: 0.8, 3: 0.8}


@pytest.mark.parametrize(
    "ask",
    [Timeline.utilisation, Timeline.to_svg, lambda one: one.start_ns],
    ids=["utilisation", "to_svg", "start_ns"],
)
def test_an_empty_timeline_is_described_as_empty(ask):
    """And what to do."""
    with pytest.raises(
        ValueError, match=r"No stage has been recorded: run a pipeline inside the block"
    ):
        ask(Timeline())


@pytest.mark.parametrize("width", [320, 440, 960, 1600])
@pytest.mark.parametrize("whole_ns", [7, 2_000, 9_500_000, 181_000_000, 10**11])
def test_a_picture_stays_within_its_width(width, whole_ns):
    """Rows, marks and words, whatever the time; it says what is idle and what is ideal."""
    slices = [
        Slice(f"{way}{n}", n, batch, start, start + whole_ns // 3 + 1)
        for n in range(3)
        for way in "FB"
        for batch, start in enumerate([0, whole_ns // 2])
    ]
    update = Slice("update", 0, -1, whole_ns, whole_ns + 5)
    svg = made(slices=slices, updates=[update]).to_svg(width)

    assert svg.startswith("<svg")
    assert f'viewBox="0 0 {width} ' in svg
    assert svg.count("<rect") == 7 + 13
    for x in re.findall(r' x[12]?="([\d.-]+)"', svg):
        assert 0 <= float(x) <= width
    for x, wide in re.findall(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)"', svg):
        assert float(x) + float(wide) <= width
    output = html.unescape(svg)
    assert "grey is idle" in output
    assert "at work (ideal)" in output


def test_a_picture_has_the_count_and_the_legend_of_updates():
    """Executions of one copy; an update only where there is one."""
    (one,) = made().executions
    again = [one, Execution(one.schedule, 2, 0, 9)] * 2
    update = Slice("update", 0, -1, 0, 5)

    assert ">Grouped inference, 1 mini-batch<" in made().to_svg()
    assert "weight update" not in made().to_svg()
    output = made(executions=again, updates=[update]).to_svg()
    assert ">Grouped inference, 1 mini-batch in each of 2 executions<" in output
    assert ">update<" in output


def test_updates_are_called_by_their_copy_if_there_are_several():
    """They are not an IPU's work, and do not have an IPU's name."""
    updates = [Slice("update", ipu, -1, 0, 5) for ipu in (0, 2)]

    assert "update" in made(updates=updates[:1]).rows()
    assert {"update 0", "update 1"} <= set(made(updates=updates).rows())


def test_a_picture_that_is_too_narrow_is_refused():
    """With the least width."""
    with pytest.raises(ValueError, match="at least 320 pixels, got 100"):
        made().to_svg(100)
