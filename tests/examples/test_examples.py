"""The examples run as their README says, on what it says.

examples/*.py --python -m ipufeed.benchmark--> stdout, parsed strictly
"""

import concurrent.futures
import json
import os
import pathlib
import re
import sys

import children
import pytest
from helpers import DEADLOCK_S

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

NUMBERS = """
    hour weekday passengers distance speed minutes fare tolls temperature rain
    latitude longitude
"""
# What an element is, and the samples in it.
EXPECTED = {
    "photos": (["float32 (32, 224, 224, 3)", "string (32,)"], 32),
    "table": (
        [
            {**dict.fromkeys(NUMBERS.split(), "float32 (?,)"), "zone": "int64 (?,)"},
            "int32 (?,)",
        ],
        1024,
    ),
    "text": ("int64 (64, ?)", 64),
    "records": ([{"words": "int64 (?, ?)"}, "float32 (64,)"], 64),
    "columns": (
        [
            {
                "spectrum": "float32 (1024, 8)",
                "pressure": "float64 (1024,)",
                "station": "int64 (1024,)",
            },
            "bool (1024,)",
        ],
        1024,
    ),
    "folders": (["uint8 (32, 96, 96, 3)", "int32 (32,)"], 32),
}


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def command(name, *options):
    file = str(EXAMPLES / f"{name}.py")
    return [sys.executable, "-m", "ipufeed.benchmark", file, *options]


def environment(folder):
    folder.mkdir()
    # Python would keep there what it compiles of the files that AutoGraph writes.
    return {**os.environ, "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each example's finished process, and the folder for its temporary files."""
    top = tmp_path_factory.mktemp("examples")

    def run(name):
        folder = top / name
        done = children.run(
            command(name, "--seconds", "1.5"),
            capture_output=True,
            text=True,
            timeout=DEADLOCK_S,
            check=False,
            cwd=top,
            env=environment(folder),
        )
        return done, folder

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(EXPECTED, pool.map(run, EXPECTED), strict=True))


@pytest.fixture(params=EXPECTED)
def name(request):
    return request.param


@pytest.fixture
def result(runs, name):
    return json.loads(runs[name][0].stdout, parse_constant=refuse)


@pytest.mark.process
def test_an_example_is_measured(runs, name, result):
    """An example runs to the end through the command, and the result has no error."""
    assert runs[name][0].returncode == 0, runs[name][0].stderr
    assert result["error"] is None
    assert result["steady"]["elements_per_second"] > 0
    assert sum(epoch["elements_processed"] for epoch in result["epochs"]) > 1


@pytest.mark.process
def test_an_example_has_the_structure_that_it_promises(name, result):
    """`element_spec` shows the structure of the example's elements."""
    expected, _ = EXPECTED[name]

    assert expected == result["dataset"]["element_spec"]
    assert result["dataset"]["name"] == f"{name}.py:make_dataset"


@pytest.mark.process
def test_samples_of_an_example_are_the_rows_of_its_batches(name, result):
    """The pipelines batch in different ways, and the samples are right for each."""
    _, samples = EXPECTED[name]

    assert samples == result["dataset"]["samples_per_element"]


@pytest.mark.process
def test_an_example_repeats_without_an_end(name, result):
    """A measurement of an example ends with its time, not with its data."""
    codes = {warning["code"] for warning in result["warnings"]}

    assert "dataset_ended" not in codes


@pytest.mark.process
def test_an_example_leaves_no_file_behind(runs, name):
    """The temporary folder is empty again when the process has ended."""
    assert list(runs[name][1].iterdir()) == []


def test_the_readme_has_a_command_for_every_example():
    """Each dataset file has one command in examples/README.md, and each command a file."""
    readme = (EXAMPLES / "README.md").read_text()
    commands = re.findall(
        r"^```sh\n(.+ipufeed\.benchmark.+)\n```$", readme, flags=re.MULTILINE
    )
    files = {path.name for path in EXAMPLES.glob("*.py")}

    assert {f"{name}.py" for name in EXPECTED} == files
    assert sorted(f"python -m ipufeed.benchmark examples/{name}" for name in files) == (
        sorted(commands)
    )


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem
)
def test_an_example_shows_how_it_is_measured(path):
    """The module docstring holds a command that names the file itself."""
    docstring = path.read_text().split('"""')[1]

    assert f"    python -m ipufeed.benchmark examples/{path.name} " in docstring
