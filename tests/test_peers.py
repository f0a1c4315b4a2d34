"""`python -m benchmarks.peers`: tables, page and jobs; its figures are not judged."""

import importlib
import importlib.util
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT))
from benchmarks.peers import Figure, Group, images, iteration, number, queues
from benchmarks.peers.page import page, picture, table

GROUP = Group(
    "Queues of two",
    "How it was done.",
    [
        Figure("ours", "stream", "ns", (4.0, 5.0, 6.0)),
        Figure("theirs", "stream", "ns", (400.0, 500.0, 600.0)),
        Figure("ours", "round trip", "ns", (0.00001,) * 3),
    ],
    ["another: pip install another"],
)


def test_a_table_has_medians_and_quartiles():
    assert table(GROUP).splitlines()[2:] == [
        "| ours | stream | 5 ns | 4.5 to 5.5 | 3 |",
        "| theirs | stream | 500 ns | 450 to 550 | 3 |",
        "| ours | round trip | 1.00e-05 ns | 1.00e-05 to 1.00e-05 | 3 |",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12,346"), (12.345, "12.3"), (0.5, "0.5")]
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_a_picture_has_a_bar_for_each_peer_of_the_first_figure():
    root = ET.fromstring(picture(GROUP))
    bars = [each for each in root.iter() if each.get("class") == "series-a"]
    widths = [float(bar.get("width")) for bar in bars]

    assert len(bars) == 2
    assert 0 < widths[0] < widths[1]
    texts = ["".join(each.itertext()) for each in root.iter() if "text" in each.tag]
    assert texts[-1].endswith(", on a logarithmic scale")


def test_the_page_names_its_machine_and_what_was_not_measured(tmp_path):
    (tmp_path / "pictures").mkdir()
    page(tmp_path / "performance.md", [GROUP])
    text = (tmp_path / "performance.md").read_text()

    assert "## Queues of two\n\nHow it was done.\n" in text
    assert "Not measured here: another: pip install another" in text
    assert "![Queues of two](pictures/performance-two.svg)" in text
    assert (tmp_path / "pictures" / "performance-two.svg").exists()
    assert "TensorFlow 2.21" in text


def test_all_ways_iterate_the_same_dataset():
    import tensorflow as tf

    ways, _ = iteration.all_ways()
    dataset = tf.data.Dataset.range(10**6).map(lambda x: tf.cast(x, tf.float32))
    for run in ways.values():
        cost = run(dataset, 100)
        assert cost.wall > 0
        assert cost.cpu >= 0


@pytest.mark.parametrize(
    "measure",
    [
        queues.python_stream,
        queues.python_round_trip,
        queues.tensorflow_stream,
        queues.tensorflow_round_trip,
    ],
)
def test_a_queue_gives_all_of_its_elements(measure):
    assert measure(200) > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two of the images."""
    path = tmp_path_factory.mktemp("images")
    images.write_images(path, 2)
    return path


@pytest.mark.parametrize("job", images.PEERS)
def test_a_job_gives_batches_of_floats(job, folder, monkeypatch):
    package, _ = images.PEERS[job]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; the extra `loaders` brings it")
    from ipufeed.sources.loaders.kinds import kind_of

    monkeypatch.setenv("IPUFEED_PEERS_IMAGES", str(folder))
    monkeypatch.syspath_prepend(str(images.JOBS))
    module = importlib.import_module(job)
    if hasattr(module, "make_dataset"):
        batch = next(iter(module.make_dataset())).numpy()
    else:
        make = getattr(module, "make_loader", None) or module.make_pipeline
        with kind_of(make()).open() as batches:
            batch = np.asarray(next(batches))

    assert (batch.shape, batch.dtype) == ((32, 224, 224, 3), np.float32)
    assert 0 <= batch.min() < batch.max() <= 1
