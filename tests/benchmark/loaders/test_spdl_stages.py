"""The stages of SPDL, from a hook that was made up."""

from types import SimpleNamespace

from ipufeed.benchmark.loaders import stages
from ipufeed.sources.loaders.kinds import kind_of


def loader(module):
    """A loader as that module has it."""
    members = {"__module__": module, "__iter__": lambda self: iter([1, 2, 3])}
    return type("DataLoader", (), members)()


def test_stages_of_a_loader_of_spdl_are_those_of_its_pipeline(monkeypatch):
    """Its DataLoader makes a pipeline for each pass."""
    hook = SimpleNamespace(
        info=SimpleNamespace(pipeline_id=1, stage_name="decode", concurrency=2),
        ave_time=0.5,
        num_success=10,
    )
    monkeypatch.setattr(stages, "_hooks", [hook])
    source = loader("spdl.dataloader")
    (found,) = stages.stages_of(source, kind_of(source), 10, 1.0)

    assert (found["name"], found["seconds_per_element"]) == ("decode", 0.5)
    own = loader("here")
    assert stages.stages_of(own, kind_of(own), 10, 1.0) is None
