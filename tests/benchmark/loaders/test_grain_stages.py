"""The stages of Grain, from an execution summary that was made up."""

import time
from types import SimpleNamespace

from ipufeed.benchmark.loaders import stages
from ipufeed.sources.loaders.failure import LoaderError


def test_what_grain_fetches_ahead_is_not_the_cost_of_what_it_gave(monkeypatch):
    """The first element takes longer than the pass may: another one comes after it."""

    def node(name, elements, seconds, is_prefetch=False):
        return SimpleNamespace(
            name=name,
            num_produced_elements=elements,
            total_processing_time_ns=seconds * 1e9,
            is_prefetch=is_prefetch,
        )

    class Iterator:
        _stats = SimpleNamespace(report=lambda: None)
        given = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.given += 1
            time.sleep(0.02 if self.given == 1 else 0.006)
            return self.given

    iterator = Iterator()
    nodes = {
        0: node("prefetch", 2, 0, True),
        1: node("batch", 8, 0),
        2: node("m", 64, 4),
    }
    grain = SimpleNamespace(
        DatasetOptions=lambda **_: None,
        ExecutionTrackingMode=SimpleNamespace(STAGE_TIMING=1),
        WithOptionsIterDataset=lambda *_: iterator,
        get_execution_summary=lambda _: SimpleNamespace(nodes=nodes),
    )
    monkeypatch.setattr(stages.importlib, "import_module", lambda _: grain)
    timed, elements = stages._grain_stages(None, 0.005)

    assert iterator.given == 2
    assert elements == 8
    assert [(each.name, each.seconds) for each in timed] == [("batch", 0), ("m", 4)]


def test_a_pass_of_grain_is_neither_too_short_nor_too_long():
    assert [stages._between(each) for each in (0.01, 2.0, 60.0)] == [0.3, 2.0, 5.0]


def test_flags_that_the_workers_of_grain_need_are_a_remedy():
    """absl.app.run() parses them in training."""
    error = LoaderError(
        ValueError("Trying to access flag --x before flags were parsed.")
    )

    assert error.message.endswith(
        '`absl.flags.FLAGS(["file"])`, as absl.app.run() does.'
    )
