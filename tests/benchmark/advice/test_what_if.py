"""What `--what-if` promises: a prediction for a stage that exists, else an error."""

from types import SimpleNamespace

import pytest

from ipufeed.benchmark.advice.what_if import answer, parse_what_if
from ipufeed.benchmark.stages.model import PipelineModel, StageCost, Station


@pytest.fixture
def explanation():
    """A pipeline: decode 3 ms and read 1 ms in one thread, at 250 elements/s."""
    model = PipelineModel(period=0.004, cpus=2.0, cpu_bound=False)
    model.stations = [Station({"r": 0.001, "d": 0.003})]
    model.costs = {"r": StageCost(), "d": StageCost()}
    stages = [SimpleNamespace(name=n, node=n[0]) for n in ("decode", "read")]
    return SimpleNamespace(
        model=model, stages=stages, names={"r": "read", "d": "decode"}, rate=250.0
    )


@pytest.mark.parametrize(
    ("text", "rate", "then"),
    [
        ("decode=2x", 400.0, "decode"),
        ("decode=0.5x", 1 / 0.007, "decode"),
        ("decode=free", 1000.0, "read"),
    ],
)
def test_the_rate_follows_from_what_is_left(explanation, text, rate, then):
    """Twice as fast, half as fast, free; and what holds it back then."""
    reply = answer(parse_what_if(text), explanation)

    assert reply["predicted_elements_per_second"] == pytest.approx(rate)
    assert reply["next"] == then


@pytest.mark.parametrize(
    "text", ["decode", "decode=", "=2x", "decode=2", "decode=-1x", "decode=0x", "a=inf"]
)
def test_what_is_not_a_question_is_refused_with_an_example(text):
    """The message has the form and an example."""
    with pytest.raises(ValueError, match=r"STAGE=SPEED .* for example decode=2x"):
        parse_what_if(text)


def test_a_stage_that_is_not_there_is_refused_with_those_that_are(explanation):
    """So that the user need not guess the name."""
    with pytest.raises(ValueError, match=r"`dekode`\. There are: `read`, `de"):
        answer(parse_what_if("dekode=2x"), explanation)


def test_a_name_may_have_an_equals_sign():
    """The last one counts."""
    assert parse_what_if("a=b=2x").stage == "a=b"
