"""Python's collections of garbage while a loader is measured."""

import contextlib
import gc

import numpy as np
import pytest

from ipufeed.benchmark import Settings
from ipufeed.benchmark.device.measure import measure_through
from ipufeed.benchmark.device.settings import DeviceSettings
from ipufeed.benchmark.loaders.consume import consume
from ipufeed.benchmark.loaders.consumer import Limits


@pytest.fixture
def collects_garbage():
    """The state of a program; that of the tests comes back."""
    frozen, enabled = gc.get_freeze_count(), gc.isenabled()
    gc.unfreeze()
    gc.enable()
    yield
    gc.unfreeze()
    if frozen:
        gc.freeze()
    if not enabled:
        gc.disable()


@pytest.mark.usefixtures("collects_garbage")
def test_what_exists_before_the_run_is_left_out_of_collections_of_garbage():
    """Full ones, which walk TensorFlow's objects, are not waits of the loader's."""
    seen = []

    def loader():
        for _ in range(3):
            seen.append(
                (
                    gc.get_freeze_count(),
                    any(each is consume for each in gc.get_objects()),
                )
            )
            yield 1.0

    consume(lambda: contextlib.nullcontext(loader()), Limits(), lambda: None, len)

    assert all(frozen > 1000 and not walked for frozen, walked in seen)
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collects_garbage")
@pytest.mark.parametrize("own", ["disabled", "frozen"])
def test_a_program_with_its_own_way_of_collecting_garbage_keeps_it(own):
    """Freezing ends with an unfreezing of all, also of what the program has frozen."""
    gc.disable() if own == "disabled" else gc.freeze()
    before = gc.get_freeze_count()
    consume(lambda: contextlib.nullcontext(iter([1.0])), Limits(), lambda: None, len)

    assert gc.get_freeze_count() == before


@pytest.mark.usefixtures("collects_garbage")
def test_so_they_are_where_a_loader_feeds_a_device():
    frozen = []

    def make_loader():
        for _ in range(3):
            frozen.append(gc.get_freeze_count())
            yield np.zeros((2, 3), np.float32)

    result = measure_through(
        make_loader, Settings(), device=DeviceSettings(step_seconds=0.001)
    )

    assert result.error is None
    assert max(frozen) > 1000
    assert gc.get_freeze_count() == 0
