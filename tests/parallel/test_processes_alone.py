"""What several processes reduce when they read it, and what one of them does alone."""

import importlib.util

import pytest
from helpers import run_cluster

pytestmark = [pytest.mark.long, pytest.mark.process]
KERAS = [name for name in ("keras", "tf_keras") if importlib.util.find_spec(name)]


@pytest.fixture(scope="module", params=[1, 2], ids=["1 IPU", "2 IPUs"])
def said(request, tmp_path_factory):
    """What each process says by the case."""
    folder = tmp_path_factory.mktemp("alone")
    ended = run_cluster("strategy_process.py", str(request.param), "alone", str(folder))
    for code, _, err in ended:
        assert code == 0, err
    return [each for _, each, _ in ended]


def test_a_variable_is_reduced_when_the_host_reads_it(said):
    """By its aggregation; a program reads its own process's value."""
    for index, process in enumerate(said):
        own = [11.0 + index, 2.0]
        assert process["in the program"] == [own] * 3
        reduced = {"SUM": [23.0, 4.0], "MEAN": [11.5, 2.0], "ONLY_FIRST_REPLICA": own}
        assert process["in the scope"] == process["outside"] == reduced
        assert process["count"] == [6, [6]]


def test_a_variable_has_the_value_that_the_host_assigns(said):
    """A sum too: each process has a part of it."""
    for process in said:
        assert process["assigned"] == [[8.0, 6.0], [8.0, 6.0], [8.0, 6.0], [8]]


def test_a_metric_is_that_of_all_processes(said):
    """As one process has it that gets the values of both."""
    for process in said:
        assert process["metric"] == 1.5
        assert process["reset"] == 0.0


@pytest.mark.parametrize("keras", KERAS)
def test_one_process_evaluates_and_saves_a_model_alone(said, keras):
    """In each format; the processes remain in step."""
    first, other = said
    assert first[f"{keras} evaluates"] == pytest.approx(first[f"{keras} predicts"])
    assert first[f"{keras} loads"] is True
    assert first[f"after {keras}"] == other[f"after {keras}"] == [1.0, 2.0]
    assert f"{keras} evaluates" not in other
