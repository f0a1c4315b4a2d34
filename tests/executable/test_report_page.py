"""What the page promises: one file, no network, nothing that runs, whatever is in it."""

import json
import re
import sys
from html.parser import HTMLParser

import children
import pytest
from helpers import DEADLOCK_S, ROOT

from ipufeed.executable.__main__ import main
from ipufeed.executable.report import page as report_page
from ipufeed.executable.report.files import read_reports

HOSTILE = '"><img src=x onerror=alert(1)></script><script>alert(1)</script>'


def write_report(folder, name="train", **changes):
    """A report as small as one can be."""
    folder.mkdir(parents=True)
    work = {"flops": 2e6, "bytes": 4096, "host_bytes": 0, "estimated_cycles": 150.0}
    step = {"name": name, "op_name": name, "opcode": name, "shape": name, **work}
    profile = {
        "program": {
            "name": name,
            "hash": name,
            "created": name,
            "compile_seconds": 0.25,
        },
        "memory": {
            "total_bytes": 300,
            "by_purpose": {"variables": 200, "code": 100},
            "buffers": [{"name": name, "source": name, "shape": name, "nbytes": 200}],
        },
        "cost": {
            "run": work,
            "loops": [{"name": name, "trips": None, "iteration": work}],
            "steps": [{**step, "executions": 1, "source": name}],
        },
        **changes,
    }
    (folder / "profile.json").write_text(json.dumps(profile))
    (folder / "framework.json").write_text(json.dumps({name: {name: name}}))
    (folder / "graph.svg").write_text(f"<svg><text>{name}</text></svg>")
    return folder


class Tags(HTMLParser):
    """All elements and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_page_has_what_the_report_has(tmp_path):
    """Figures with their units."""
    page = report_page.page(read_reports(write_report(tmp_path / "r")))

    for text in ("train", "250 ms", "300 bytes", "2 M", "4.1 kB", "known when it runs"):
        assert text in page
    assert "estimate" in page


def test_nothing_of_a_report_can_run(tmp_path):
    """Names that are markup stay text; the picture is an image."""
    page = report_page.page(read_reports(write_report(tmp_path / "r", HOSTILE)))

    tags = Tags(page).found
    assert {tag for tag, _ in tags}.isdisjoint({"script", "iframe", "object", "link"})
    images = [attributes for tag, attributes in tags if tag == "img"]
    assert len(images) == 1
    assert images[0]["src"].startswith("data:image/svg+xml;base64,")
    assert not any(name.startswith("on") for _, each in tags for name in each)


def test_the_page_needs_no_network(tmp_path):
    """A content policy forbids it, and no attribute asks for it."""
    page = report_page.page(read_reports(write_report(tmp_path / "r")))

    (policy,) = re.findall(
        r'http-equiv="Content-Security-Policy" content="([^"]+)"', page
    )
    assert policy.startswith("default-src 'none'")
    for _, attributes in Tags(page).found:
        for name in ("src", "href"):
            assert re.match(r"(#|data:|$)", attributes.get(name, ""))
    assert "url(" not in page
    assert "@import" not in page


def test_a_folder_of_reports_is_one_page(tmp_path):
    """With a list of the programs, each of which links to its part."""
    write_report(tmp_path / "tf_report__1__1", "first")
    write_report(tmp_path / "tf_report__2__1", "second")

    page = report_page.page(read_reports(tmp_path))

    links = [each["href"] for tag, each in Tags(page).found if tag == "a"]
    articles = ["#" + each["id"] for tag, each in Tags(page).found if tag == "article"]
    assert links == articles
    assert len(links) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"memory": {"total_bytes": "many", "buffers": [1, None], "by_purpose": []}},
        {"cost": {"run": {"flops": float("inf")}, "steps": "none", "loops": [[]]}},
        {"ipu_model": 3},
    ],
)
def test_values_of_another_kind_are_shown_as_nothing(tmp_path, changes):
    """A report from elsewhere may hold anything."""
    page = report_page.page(read_reports(write_report(tmp_path / "r", **changes)))

    assert "train" in page


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no report"),
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"program": {}}', "has no object 'memory'"),
    ],
)
def test_what_is_not_a_report_is_a_clear_error(tmp_path, capsys, content, message):
    """Exit code 2, one line, and no page."""
    if content is not None:
        (tmp_path / "profile.json").write_text(content)
    page = tmp_path / "page.html"

    assert main(["report", str(tmp_path), "--html", str(page)]) == 2

    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1
    assert not page.exists()


def test_a_folder_that_is_not_there_is_named(tmp_path, capsys):
    """So is a page that cannot be written."""
    assert main(["report", str(tmp_path / "x"), "--html", "y"]) == 2
    assert f"There is no folder {tmp_path}/x" in capsys.readouterr().err
    report = write_report(tmp_path / "r")

    assert main(["report", str(report), "--html", str(tmp_path)]) == 2

    assert f"{tmp_path} cannot be written" in capsys.readouterr().err


@pytest.mark.process
def test_the_command_needs_no_tensorflow(tmp_path):
    """A reader of reports need not wait for it."""
    report = write_report(tmp_path / "r")
    command = [sys.executable, "-X", "importtime", "-m", "ipufeed.executable", "report"]

    done = children.run(
        [*command, str(report), "--html", str(tmp_path / "page.html")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=DEADLOCK_S,
    )

    assert "import time:" in done.stderr
    assert "tensorflow" not in done.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
