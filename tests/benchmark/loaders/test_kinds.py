"""What an object is taken for, without the framework that it is of."""

import contextlib
import dataclasses
from collections import UserDict

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest
import tensorflow as tf

import ipufeed
from ipufeed.benchmark import Settings, measure
from ipufeed.benchmark.advice import with_stages
from ipufeed.benchmark.loaders.stages import Timed, listen, rows, short_name, stages_of
from ipufeed.benchmark.stages.explain import Stage
from ipufeed.sources.loaders.kinds import Remade, is_known, kind_of, why_not


def made(module, name, bases=(), **members):
    """An instance of a class as that framework has it."""
    members.setdefault("__iter__", lambda self: iter([1, 2, 3]))
    return type(name, bases, {"__module__": module, **members})()


def elements(source):
    with kind_of(source).open() as iterator:
        return list(iterator)


def test_a_torch_loader_shows_how_it_batches():
    module = "torch.utils.data.dataloader"
    batched = made(module, "DataLoader", batch_size=32, batch_sampler=object())
    sampled = made(module, "DataLoader", batch_size=None, batch_sampler=object())
    single = made(module, "DataLoader", batch_size=None, batch_sampler=None)
    bulk = made("torch.utils.data.sampler", "BatchSampler", batch_size=50)
    in_bulk = made(
        module, "DataLoader", batch_size=None, batch_sampler=None, sampler=bulk
    )

    assert kind_of(batched).name == "torch DataLoader"
    assert [kind_of(each).batch for each in (batched, sampled, single, in_bulk)] == [
        "batch_size=32",
        "batch_sampler",
        None,
        "BatchSampler",
    ]
    assert [kind_of(each).size for each in (batched, single, in_bulk)] == [32, None, 50]
    for name, size in (("BatchSamplerShard", 8), ("Buckets", None)):
        sampler = made("accelerate.data_loader", name, batch_size=8)
        prepared = made(module, "DataLoader", batch_size=None, batch_sampler=sampler)
        assert kind_of(prepared).size == size
        kind = type(prepared)
        shown = property(lambda _, kind=kind: kind)
        wrapper = made("accelerate.data_loader", "DataLoaderShard", __class__=shown)
        wrapper.batch_size, wrapper.batch_sampler = None, sampler
        assert kind_of(wrapper).size == size
    assert elements(batched) == [1, 2, 3]
    assert kind_of(batched).passes


def test_a_class_of_the_users_own_is_of_its_framework():
    base = type(made("torch.utils.data.dataloader", "DataLoader", batch_size=8))
    own = made("__main__", "MyLoader", (base,))

    assert kind_of(own).name == "torch DataLoader"


def test_an_spdl_pipeline_runs_once_and_is_stopped():
    stopped = []

    @contextlib.contextmanager
    def auto_stop(self):
        yield
        stopped.append(True)

    pipeline = made("spdl.pipeline._pipeline", "Pipeline", auto_stop=auto_stop)

    assert not kind_of(pipeline).passes
    assert elements(pipeline) == [1, 2, 3]
    assert stopped == [True]


@pytest.mark.parametrize(
    ("module", "name"),
    [("ray.data.dataset", "Dataset"), ("ray.data.iterator", "DataIterator")],
)
def test_ray_gives_batches_by_a_method(module, name):
    source = made(module, name, iter_batches=lambda self: iter([{"id": 1}]))

    assert kind_of(source).name == f"ray.data {name}"
    assert elements(source) == [{"id": 1}]


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [
        ("grain._src.python.dataset.dataset", "IterDataset", "grain IterDataset"),
        ("grain._src.python.data_loader", "DataLoader", "grain DataLoader"),
        ("datasets.arrow_dataset", "Dataset", "datasets Dataset"),
        (
            "nvidia.dali.plugin.pytorch",
            "DALIGenericIterator",
            "nvidia DALIGenericIterator",
        ),
    ],
)
def test_other_frameworks_are_named(module, name, kind):
    source = made(module, name)

    assert kind_of(source).name == kind
    assert is_known(source) == (not kind.startswith("nvidia"))


def test_a_class_that_is_read_by_index_gives_its_elements():
    """Up to its length, in each pass; an IndexError before that is its own."""

    class Own:
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return self.rows[index]

    kind = kind_of(Own([5, 6, 7, 8]))
    assert (kind.name, kind.passes) == ("Own", True)
    assert elements(Own([5, 6, 7, 8])) == [5, 6, 7]
    with pytest.raises(
        IndexError,
        match=r"at \[\d+\] of \w+, whose __len__ returns \d+: it must return",
    ):
        elements(Own([5, 6]))

    class Mapping(Own):
        def keys(self):
            return [0]

    assert kind_of(Mapping([])) is None


def test_a_class_with_indices_alone_is_read_to_its_index_error():
    """As `for` does."""

    class Own:
        def __getitem__(self, index):
            return [5, 6][index]

    assert kind_of(Own()).passes
    assert elements(Own()) == [5, 6]


def grain_step(name, *inputs, kind="IterDataset", **members):
    base = type(made("grain._src.python.dataset.dataset", kind))
    module = "grain._src.python.dataset.transformations"
    return made(module, name, (base,), _parents=inputs, **members)


def test_grain_shows_how_it_batches():
    source = grain_step("RangeMapDataset")
    batch = grain_step("BatchMapDataset", source, _batch_size=8)
    prefetch = grain_step("PrefetchIterDataset", grain_step("MapMapDataset", batch))
    several = grain_step("InterleaveIterDataset", _datasets=[prefetch, prefetch])
    mixed = grain_step("MixedIterDataset", batch, source)
    flat = grain_step("FlatMapIterDataset", batch)
    operations = [made("grain._src", "Batch", batch_size=4), made("grain._src", "Map")]
    loader = grain_step("DataLoader", kind="DataLoader", _operations=operations)

    for each in (batch, prefetch, several):
        assert (kind_of(each).batch, kind_of(each).size) == ("BatchMapDataset", 8)
        assert kind_of(each).passes
    assert (kind_of(loader).batch, kind_of(loader).size) == ("Batch", 4)
    for each in (source, mixed, flat):
        assert (kind_of(each).batch, kind_of(each).size) == (None, None)
    assert not kind_of(grain_step("Iterator", __next__=None)).passes


def test_an_iterator_is_read_once_and_a_generator_closed():
    closed = []

    def generate():
        try:
            yield from range(3)
        finally:
            closed.append(True)

    generator = generate()

    assert not kind_of(generator).passes
    assert not kind_of(iter([1])).passes
    with kind_of(made("here", "Own", __iter__=lambda self: generate())).open() as found:
        next(found)
    assert closed == [True]


def test_a_function_is_called_again_for_each_pass():
    made_so_far = []

    def make():
        made_so_far.append(True)
        return iter([1, 2])

    source = Remade(make, make())

    assert kind_of(source).passes
    assert elements(source) == [1, 2]
    assert len(made_so_far) == 1  # the one that was there already
    assert elements(source) == [1, 2]
    assert len(made_so_far) == 2


def test_a_function_that_gives_something_else_later_is_refused():
    source = Remade(lambda: None, iter([1]))
    elements(source)
    with pytest.raises(TypeError, match="must return a loader each time"):
        elements(source)
    with pytest.raises(TypeError, match="must be a loader, got int"):
        Remade(lambda: 3, 3)


@pytest.mark.parametrize(
    "source",
    [
        *(None, 3, "text", b"bytes", [1], (1,), {"a": 1}, {1}, range(3), object(), int),
        np.zeros(3),
        lambda: iter([1]),
        tf.zeros(3),
        tf.data.Dataset.range(3),
        iter(tf.data.Dataset.range(3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_data_and_tensorflows_own_are_not_loaders(source):
    assert kind_of(source) is None
    assert not is_known(source)


def test_an_infeed_is_not_a_loader():
    queue = ipufeed.IPUInfeedQueue(
        tf.data.Dataset.range(3).map(lambda x: tf.cast(x, tf.int32))
    )

    assert kind_of(queue) is None


def test_what_is_nearly_a_loader_is_refused_with_the_protocol():
    dataset = type("Own", (), {"__module__": "here"})
    base = type("Dataset", (), {"__module__": "torch.utils.data.dataset"})
    own = type(
        "Own", (base,), {"__module__": "here", "__getitem__": lambda self, i: i}
    )()

    assert "DataLoader" in why_not(own)
    assert kind_of(own) is None
    assert "an array in memory" in why_not(np.zeros(3))
    assert why_not(pa.dataset.dataset(pa.table({"x": [1]}))) == (
        "Give its `to_batches()`, or a function that returns it."
    )
    assert why_not(dataset()) is None
    lazy = type(
        "LazyFrame", (), {"__module__": "polars.lazyframe", "__getitem__": id}
    )()
    assert kind_of(lazy) is None
    assert "`collect().iter_slices(10_000)`" in why_not(lazy)


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ({"train": tf.data.Dataset.range(3), "test": None}, "'train'"),
        ((None, iter(range(3))), "1"),
    ],
)
def test_one_of_several_loaders_is_to_be_given(source, key):
    """Not a dataset made of their slices."""
    assert f"It holds loaders: give one of them, such as that at [{key}]" in why_not(
        source
    )
    assert why_not({"x": np.zeros(3)}) is None


def test_a_mapping_is_refused_since_a_loop_gets_its_keys():
    """Such as a file of h5py, which is not a dict."""
    file = UserDict({"x": np.zeros(3)})

    assert kind_of(file) is None
    assert "a mapping, of which a loop gets the keys" in why_not(file)
    own = made("own", "Loader")
    assert "such as that at ['train']" in why_not(UserDict({"train": own}))


def test_a_data_module_is_refused_with_its_method():
    module = type("Module", (), {"train_dataloader": lambda self: None})()

    assert "Give its `train_dataloader()`, after its `setup()`." in why_not(module)


# ---- Stages, as the framework reports them ----


def test_rows_of_stages_have_the_keys_of_a_dataset():
    found = rows([Timed("fast", 1.0, None), Timed("slow", 3.0, 2)], 10)

    assert [stage["name"] for stage in found] == ["slow", "fast"]
    assert [stage["share"] for stage in found] == [0.75, 0.25]
    assert found[0]["seconds_per_element"] == 0.3
    assert found[0]["ceiling_elements_per_second"] == pytest.approx(2 * 10 / 3)
    assert found[1]["ceiling_elements_per_second"] is None
    fields = {field.name for field in dataclasses.fields(Stage)} - {"node"}
    assert set(found[0]) == fields
    assert rows([Timed("none", 0.0, None)], 10) is None
    assert rows([], 10) is None


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("MapMapDataset(transform=decode @ .../a/b.py:10)", "MapMapDataset(decode)"),
        ("BatchMapDataset(batch_size=64)", "BatchMapDataset"),
        ("Shuffle", "Shuffle"),
    ],
)
def test_names_of_grain_are_shortened(name, short):
    assert short_name(name) == short


def test_stages_of_an_opaque_loader_are_unknown():
    source = made("here", "Own")

    assert stages_of(source, kind_of(source), 10, 1.0) is None


@pytest.mark.parametrize(("passes", "elements"), [(2, 10), (None, 20)])
def test_stages_of_a_loader_are_those_of_its_last_pass(monkeypatch, passes, elements):
    """A pipeline of SPDL is made for each pass, and the last one reports its stages."""
    made_of = []
    monkeypatch.setattr(
        with_stages,
        "stages_of",
        lambda source, kind, elements, seconds: made_of.append(elements),
    )

    class Own:
        def __iter__(self):
            return iter([1.5] * (20 // (passes or 1)))

    result = measure(Own(), Settings(passes=passes))
    with_stages.with_stages(result, Own())

    assert made_of == [elements]


def test_stages_of_grain_are_its_own():
    grain = pytest.importorskip("grain")
    source = grain.MapDataset.range(64).map(lambda x: x + 1).batch(4).to_iter_dataset()
    found = stages_of(source, kind_of(source), 16, 1.0)

    assert {stage["name"].split("(")[0] for stage in found} == {
        "BatchMapDataset",
        "MapMapDataset",
        "RangeMapDataset",
    }
    assert sum(stage["share"] for stage in found) == pytest.approx(1)


def test_stages_of_spdl_are_those_of_its_hooks():
    spdl = pytest.importorskip("spdl.pipeline")
    listen()
    pipeline = (
        spdl.PipelineBuilder()
        .add_source(range(10))
        .pipe(lambda x: x + 1, name="increment", concurrency=2)
        .add_sink(2)
        .build(num_threads=2)
    )
    kind = kind_of(pipeline)
    assert elements(pipeline) == list(range(1, 11))

    (found,) = stages_of(pipeline, kind, 10, 1.0)
    assert (found["name"], found["parallelism"]) == ("increment", 2)
