"""A loader is measured by the rules of a dataset: in this process and by the command."""

import asyncio
import json
import signal
import subprocess
import sys
import types

import numpy as np
import pyarrow as pa
import pytest
from results import SECTIONS

from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.measuring import loader as measuring_loader
from ipufeed.benchmark.measuring.loader import length_of
from ipufeed.benchmark.measuring.machine import children_ns, descendants_cpu_ns
from ipufeed.benchmark.measuring.recording import Recording
from ipufeed.errors import MeasurementInterrupted

# The first test of the command waits for all of its processes.
pytestmark = pytest.mark.timeout(1200)


class Loader:
    """Batches of four, in as many passes as one asks for."""

    def __init__(self, batches=20):
        self.batches, self.passes = batches, 0

    def __len__(self):
        return self.batches

    def __iter__(self):
        self.passes += 1
        for number in range(self.batches):
            yield {
                "image": np.full((4, 3), number, np.float32),
                "label": np.full(4, number, np.int64),
            }


def codes(result):
    return {warning["code"] for warning in result.warnings}


def test_a_loader_is_measured_to_its_end():
    result = measure(Loader())

    assert result.elements == 20
    assert result.dataset["loader"] == "Loader"
    assert result.dataset["cardinality"] == 20
    assert result.dataset["element_spec"] == {
        "image": "float32 (4, 3)",
        "label": "int64 (4,)",
    }
    assert result.dataset["bytes_per_element"] == 4 * 3 * 4 + 4 * 8
    assert result.dataset["samples_per_element"] == 4
    assert result.latency["gaps"] == 19
    assert sum(result.series["elements"]) == 20
    assert 0 <= result.queue["starved_share"] <= 1
    assert result.calibration["seconds_per_element"] > 0
    assert list(json.loads(result.to_json())) == SECTIONS
    assert "dataset_ended" in codes(result)


def test_a_pass_starts_again():
    loader = Loader()
    result = measure(loader, Settings(passes=3))

    assert loader.passes == 3
    assert [epoch["elements_processed"] for epoch in result.epochs] == [20, 20, 20]
    assert len(result.steady["pass_rates"]) == 3


def test_an_iterator_is_read_once():
    with pytest.raises(ValueError, match="a generator is read once"):
        measure(iter(Loader()), Settings(passes=2))


def test_a_recording_is_refused():
    with pytest.raises(ValueError, match="native threads"):
        measure(Loader(), recording=Recording())


def test_what_is_in_memory_is_refused():
    for data, words in (([1, 2], "list"), (np.zeros(3), "an array in memory")):
        with pytest.raises(TypeError, match=words):
            measure(data)


@pytest.mark.parametrize(
    ("batches", "samples"),
    [
        ([(np.zeros((4, 2)), np.zeros(4))], 4),
        ([np.zeros((4, 2))], 1),  # a picture, or a batch: nothing says
        ([(np.zeros((4, 2)), np.zeros(3))], 1),
        ([(np.zeros((4, 2)), 1)], 1),
        ([pa.record_batch({"x": np.zeros(4)})], 4),
    ],
)
def test_samples_are_rows_where_all_arrays_agree(batches, samples):
    assert measure(iter(batches * 3)).dataset["samples_per_element"] == samples


def test_samples_are_what_the_user_declares():
    found = measure(Loader(), Settings(items_per_element=7)).dataset

    assert (found["samples_per_element"], found["samples_rule"]) == (
        7,
        "--items-per-element",
    )


def test_a_failure_is_a_result():
    def failing():
        yield from Loader(5)
        raise OSError("the disk is gone")

    result = measure(failing())

    assert result.elements == 5
    assert result.error["type"] == "OSError"
    assert result.error["element"] == 5
    assert result.error["message"].startswith("the disk is gone (")
    assert "test_measure_loader.py" in result.error["message"]


def test_what_fails_on_a_thread_names_the_remedy():
    def handlers():
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        yield 1

    def loops():
        asyncio.get_event_loop()
        yield 1

    assert "top level of the file" in measure(handlers()).error["message"]
    assert "asyncio.run()" in measure(loops()).error["message"]


def test_samples_are_those_of_the_batch_size():
    """Not the channels of the images that a batch lists."""

    class Listing:
        __module__ = "torch.utils.data.dataloader"
        batch_size, batch_sampler = 8, None

        def __iter__(self):
            return iter([[np.zeros((3, 5, 5))] * size for size in (8, 8, 8, 4)])

    loader = type("DataLoader", (Listing,), {"__module__": Listing.__module__})()
    found = measure(loader).dataset

    assert found["samples_per_element"] == 7
    assert found["bytes_per_element"] == 7 * 600


@pytest.mark.parametrize(
    ("element", "samples"),
    [
        ((np.zeros((50, 8)), np.zeros(50)), 50),
        ((np.zeros((3, 5, 5)), 7), 1),
    ],
)
def test_a_loader_without_a_batch_size_may_give_batches(element, samples):
    """Its dataset makes them, as a generator does: columns that agree are rows."""
    base = type("DataLoader", (Loader,), {"__module__": "torch.utils.data.dataloader"})

    class Own(base):
        batch_size = batch_sampler = sampler = None

        def __iter__(self):
            return iter([element] * 3)

    found = measure(Own()).dataset

    assert found["loader"] == "torch DataLoader"
    assert found["samples_per_element"] == samples
    assert "--items-per-element" in found["samples_rule"]


def test_ctrl_c_keeps_the_result():
    def interrupt(progress):
        if progress.elements:
            raise KeyboardInterrupt

    endless = (batch for _ in iter(int, 1) for batch in Loader())
    with pytest.raises(MeasurementInterrupted) as caught:
        measure(endless, on_progress=interrupt)

    assert caught.value.result.elements > 0
    assert "interrupted" in codes(caught.value.result)


def test_without_copies_there_is_no_memcpy():
    assert measure(Loader(), Settings(memcpy=False)).memcpy is None


def test_a_length_that_fails_is_unknown():
    class Failing(Loader):
        def __len__(self):
            raise TypeError("no length")

    assert length_of(Failing()) == "unknown"
    assert measure(Failing(3)).dataset["cardinality"] == "unknown"


def test_cpu_time_is_that_of_all_processes_below():
    """From a table of processes: children, grandchildren, and others that do not count."""
    table = {1: [(2, 10), (3, 20)], 3: [(4, 30)], 9: [(5, 1000)]}

    assert sum(children_ns(1, table)) == 60
    assert children_ns(2, table) == []


@pytest.mark.process
def test_a_worker_that_has_ended_counts():
    before = descendants_cpu_ns()
    code = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", code], check=True)

    assert descendants_cpu_ns() - before >= 150_000_000  # 10 ms ticks


def test_counting_cpu_time_is_not_in_the_cpu_time(monkeypatch):
    """The processes below are looked up before the run's begin and after its end."""
    own = [0]

    def descendants():
        own[0] += 4_000_000
        return 0

    clock = types.SimpleNamespace(
        process_time_ns=lambda: own[0], monotonic_ns=lambda: own[0] + 1
    )
    monkeypatch.setattr(measuring_loader, "descendants_cpu_ns", descendants)
    monkeypatch.setattr(measuring_loader, "time", clock)
    times = measuring_loader._CpuTimes()
    times.begin()
    own[0] += 300

    assert times.since() == (300, 300)


def test_an_error_without_a_text_is_its_place():
    def loader():
        yield np.zeros(2)
        raise KeyboardInterrupt

    result = measure(loader())
    assert result.error["type"] == "KeyboardInterrupt"
    assert result.error["message"].startswith("(")
