"""The guide's pages for beginners: their pictures, their commands, their links."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

from ipufeed.benchmark.cli.options.parser import build_parser
from ipufeed.benchmark.cli.report import build_parser as build_report_parser
from ipufeed.parallel.pipeline import schedules

DOCS = ROOT / "docs"
PAGES = ("read-the-report.md", "bottleneck.md")
ILLUSTRATED = (*PAGES, "ci.md")
PATH = re.compile(r"`([\w./-]+?)((?:\.(?:py|h|cc|md))(?:/\.cc)?)`")
ELSEWHERE = {"xla/ffi/api/ffi"}  # a header of XLA


def load_pictures(name="__main__"):
    """The script that draws them."""
    path = DOCS / "pictures" / f"{name}.py"
    sys.path.insert(0, str(path.parent))  # as Python does for `python docs/pictures`
    spec = importlib.util.spec_from_file_location(f"guide_pictures_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PICTURES = load_pictures()
TIMELINES = load_pictures("timelines")


@pytest.mark.parametrize("name", PICTURES.PICTURES)
def test_a_picture_of_the_guide_is_what_the_page_would_draw(name):
    """A change of a drawing needs a run of `python docs/pictures`."""
    assert (DOCS / "pictures" / f"{name}.svg").read_text(
        encoding="utf-8"
    ) == PICTURES.draw(name)


@pytest.mark.parametrize("name", PICTURES.COMMANDS)
def test_a_result_behind_a_picture_is_of_the_pipeline_next_to_it(name):
    """It has been measured, by the command that stands there."""
    result = json.loads((DOCS / "pictures" / f"{name}.json").read_text())

    target = PICTURES.COMMANDS[name][0].partition(":")[2]
    assert result["dataset"]["name"] == f"pipeline.py:{target or 'make_dataset'}"
    assert len(result["series"]["part"]) > 100
    assert result["error"] is None


@pytest.mark.parametrize("name", TIMELINES.PICTURES)
def test_a_picture_of_a_schedule_is_what_was_executed(name):
    """It has been measured: each stage on each mini-batch, in the table's order."""
    assert (DOCS / "pictures" / f"{name}.svg").read_text(
        encoding="utf-8"
    ) == TIMELINES.draw(name)
    executed = TIMELINES.load()[TIMELINES.PICTURES[name]]
    (one,) = executed.executions
    schedule, count = schedules.read(one.schedule)
    for ipu in range(TIMELINES.STAGES):
        done = [
            (each.label, each.mini_batch) for each in executed.slices if each.ipu == ipu
        ]
        assert done == [
            (position.label, mini_batch)
            for step in schedule.steps(count)
            for position, mini_batch in step
            if position.device == ipu
        ]
    for share in executed.utilisation().values():
        assert share == pytest.approx(share.ideal, rel=0.05)


def test_the_comparisons_of_a_picture_have_each_verdict():
    """What was measured shows all three, as the text has it."""
    found = json.loads((DOCS / "pictures" / "gate.json").read_text())

    assert list(found) == list(PICTURES.BRANCHES)
    verdicts = [each["gate"]["verdict"] for each in found.values()]
    assert verdicts == ["held", "slower", "cannot tell"]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_guide_has_options_that_there_are(page):
    """As they stand there, `report` included."""
    commands = re.findall(r"python -m ipufeed\.benchmark ([^`\n]+)", read(page))

    assert commands
    for command in commands:
        words = shlex.split(command)
        if words[0] == "report":
            build_report_parser().parse_args(words[1:])
        else:
            assert build_parser().parse_args(words).target == "dataset.py"


@pytest.mark.parametrize("page", [*ILLUSTRATED, "pipelines.md"])
def test_every_link_of_the_guide_leads_to_a_file(page):
    """Pictures, too, each of which has words for readers that cannot see it."""
    found = re.findall(r"(!?)\[([^\]]*)\]\(([^)]+)\)", read(page))

    assert any(picture for picture, _, _ in found)
    for picture, words, target in found:
        assert (DOCS / target.partition("#")[0]).is_file()
        assert not picture or len(words) > 20


def test_every_column_of_the_series_is_described():
    """In docs/result.md, with how to read it."""
    result = json.loads((DOCS / "pictures" / "run.json").read_text())
    text = (DOCS / "result.md").read_text()
    section = text.partition("## The run over time")[2].partition("\n## ")[0]

    for column in result["series"]:
        assert f"`{column}`" in section
    for part in set(result["series"]["part"]):
        assert f"`{part}`" in section


def test_every_code_of_an_advice_is_described():
    """In docs/result.md, and no other code is."""
    rules = (ROOT / "ipufeed" / "benchmark" / "advice").glob("rules*.py")
    codes = re.findall(r'advise\("(\w+)"', "".join(map(Path.read_text, rules)))
    table = read("result.md").partition("| code of an advice |")[2].partition("\n\n")[0]

    assert len(codes) >= 12
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(codes)


def test_every_path_of_a_page_is_there():
    """From the project's root, from the page, or as the end of a path; `x.h/.cc` is two."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("not a git checkout")
    ends = {"/".join(path.split("/")[n:]) for path in listed for n in range(9)}
    dead = {
        f"{page}: {stem}{suffix}"
        for page in listed
        if page.endswith(".md")
        for stem, suffixes in PATH.findall((ROOT / page).read_text(encoding="utf-8"))
        for suffix in suffixes.split("/")
        if f"{stem}{suffix}" not in ends and stem not in ELSEWHERE
    }

    assert dead == set()


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")
