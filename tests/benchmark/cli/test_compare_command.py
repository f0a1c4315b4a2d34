"""`python -m ipufeed.benchmark compare`: exit codes, JSON on stdout, words on stderr.

The command runs inside the test's process: it needs no TensorFlow, which one test holds.
`--compare` on a run is at the end, in processes of their own.
"""

import json
import os
import sys

import children
import pytest
from helpers import DEADLOCK_S, ROOT
from synthetic import synthetic

from ipufeed.benchmark import compare
from ipufeed.benchmark.cli.main import main
from ipufeed.benchmark.comparing.allowed_loss import parse_allowed_loss
from ipufeed.benchmark.comparing.text import verdict_lines


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with results of known rates."""
    monkeypatch.chdir(tmp_path)
    for name, factor in (("base", 1.0), ("same", 1.0), ("slow", 0.8), ("fast", 1.2)):
        write(tmp_path / f"{name}.json", synthetic(factor=factor))
    return tmp_path


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def run(capfd, *arguments):
    """The exit code, the JSON or None, and the words on stderr."""
    try:
        code = main(["compare", *arguments])
    except SystemExit as error:
        code = error.code
    out, err = capfd.readouterr()
    return code, json.loads(out) if out else None, " ".join(err.split())


@pytest.mark.parametrize(
    ("new", "verdict", "gate", "code"),
    [
        ("same", "cannot tell", "held", 0),
        ("slow", "worse", "slower", 1),
        ("fast", "better", "held", 0),
    ],
)
def test_a_gate_is_an_exit_code(folder, capfd, new, verdict, gate, code):
    """0 held, 1 slower; without a gate a verdict is not a failure."""
    with_gate = run(capfd, "base.json", f"{new}.json", "--fail-if-slower", "5%")
    without = run(capfd, "base.json", f"{new}.json")

    assert with_gate[0] == code
    assert with_gate[1]["gate"] == {"allowed_loss": 0.05, "verdict": gate}
    assert without[0] == 0
    assert without[1]["verdict"] == with_gate[1]["verdict"] == verdict
    assert without[2].startswith(verdict + ": ")


def test_an_inconclusive_comparison_has_an_exit_code_of_its_own(folder, capfd):
    """A loss of just as much as is allowed: 3, and what would have been seen."""
    write(folder / "edge.json", synthetic(factor=0.95))

    code, comparison, words = run(
        capfd, "base.json", "edge.json", "--fail-if-slower=5%"
    )

    assert code == 3
    assert comparison["gate"]["verdict"] == "cannot tell"
    assert (
        "gate undecided: whether more than 5 % of the rate is lost cannot be determined."
        in words
    )
    assert "would have been seen in 95 of 100 such comparisons" in words


def test_several_of_each_stand_on_either_side_of_two_dashes(folder, capfd):
    """Shell patterns do for both sides; options may stand anywhere."""
    for arguments in (
        ("base.json", "same.json", "--", "slow.json", "slow.json", "--quiet"),
        ("--quiet", "base.json", "same.json", "--", "slow.json", "slow.json"),
    ):
        code, comparison, words = run(capfd, *arguments)

        assert (code, words) == (0, "")
        assert comparison["base"]["names"] == ["base.json", "same.json"]
        assert comparison["new"]["names"] == ["slow.json", "slow.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "bad.json cannot be read: No such file or directory."),
        ("", "bad.json is empty: was the run that should have written it ended?"),
        ('{"schema_version": 1, "epo', "must be the JSON of one result, and is not:"),
        (
            "[1, 2]",
            "must be a result of `python -m ipufeed.benchmark`, got a JSON list",
        ),
        ("{}", "got an object without `schema_version`"),
        ('{"schema_version": 9}', "has `schema_version` 9, and this ipufeed reads 1"),
        ('{"schema_version": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "must be the JSON of one result, and is not"),
        (b"\xff\xfe\x00", "bad.json cannot be read: it is not text."),
        (json.dumps(synthetic(error={"type": "X", "element": 3})), "failed with X at"),
    ],
    ids=[
        "missing",
        "empty",
        "cut",
        "list",
        "object",
        "version",
        "NaN",
        "deep",
        "bytes",
        "error",
    ],
)
@pytest.mark.parametrize("place", ["base", "new"])
def test_a_file_that_is_not_a_result_is_bad_input(folder, capfd, text, words, place):
    """Exit code 2, nothing on stdout, and the file's name in a sentence."""
    if isinstance(text, bytes):
        (folder / "bad.json").write_bytes(text)
    elif text is not None:
        write(folder / "bad.json", text)
    files = ["bad.json", "base.json"] if place == "base" else ["base.json", "bad.json"]

    code, comparison, output = run(capfd, *files, "--fail-if-slower", "5%")

    assert (code, comparison) == (2, None)
    assert words in output
    assert "Traceback" not in output


def test_a_result_without_a_rate_has_a_code_of_its_own(folder, capfd):
    """4: nothing was measured."""
    write(folder / "empty.json", synthetic(steady=None))

    code, comparison, words = run(capfd, "base.json", "empty.json")

    assert (code, comparison) == (4, None)
    assert "empty.json has no rate" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one base and one new result, got 0 file(s)"),
        (["base.json"], "got 1 file(s)"),
        (["base.json"] * 3, "write `--` between those of the base and the new"),
        (["base.json", "--"], "at least one result on either side of `--`"),
        (["--", "base.json"], "at least one result on either side of `--`"),
        (["base.json", "same.json", "--fail-if-slower", "5"], "as 5% or 0.05, got '5'"),
        (
            ["base.json", "same.json", "--fail-if-slower", "-5%"],
            "must be a fraction from 0% to below 100%, as 5% or 0.05, got '-5%'",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(folder, capfd, arguments, words):
    """With exit code 2, as argparse's own."""
    code, _, output = run(capfd, *arguments)

    assert code == 2
    assert words in output


@pytest.mark.parametrize(
    ("text", "value"), [("5%", 0.05), ("0.05", 0.05), (" 2.5 %", 0.025), ("0%", 0.0)]
)
def test_a_fraction_is_written_in_percent_or_not(text, value):
    """Both are seen in the wild."""
    assert parse_allowed_loss(text) == pytest.approx(value)


def test_the_remedy_has_the_duration_and_the_number_of_runs():
    """What could have been seen, and what it takes to see 5 %."""
    wide = synthetic([0.1, -0.1, 0.02, 0.2, -0.2] * 20)

    words = " ".join(" ".join(verdict_lines(compare(wide, wide))).split())

    seen = "would have been seen in 95 of 100 such comparisons. "
    assert f"{seen}To see one of 5 %, run each for " in words
    assert "(--seconds) or compare" in words


def test_names_from_outside_cannot_command_the_terminal():
    """A dataset may be called anything."""
    hostile = synthetic(dataset={"name": "\x1b[2J"})

    assert "\x1b" not in "\n".join(verdict_lines(compare(hostile, hostile)))


@pytest.mark.process
def test_comparing_needs_no_tensorflow(folder):
    """It would take four seconds to import."""
    done = children.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "ipufeed.benchmark"),
            *("compare", "base.json", "slow.json", "--fail-if-slower", "5%"),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "worse"
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "numpy" in imported
    assert not {"tensorflow", "pyarrow", "tqdm"} & imported


# ---- A run that compares itself ----

DATASET = """
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing


def make_dataset(us: int = 1000, take: int = -1):
    return tf.data.Dataset.range(1).repeat().apply(testing.sleep(us)).take(take)
"""


def measured(folder, *arguments):
    """Runs the command on the dataset above."""
    return children.run(
        [sys.executable, "-m", "ipufeed.benchmark", "dataset.py", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.process
def test_a_run_compares_itself_with_a_base(folder):
    """The verdict stands in the result and below its summary; the gate is the exit code.

    A base of 10^9 elements/s is lost, whatever other load the machine has.
    """
    (folder / "dataset.py").write_text(DATASET)
    first = measured(folder, "--seconds", "1", "--quiet", "--json", "first.json")
    fast = json.loads((folder / "first.json").read_text())
    fast["machine"]["cpus_used_by_others"] = 0.0
    fast["steady"]["elements_per_second"] *= 1e6
    fast["steady"]["windows"]["elements"] = [
        1e6 * count for count in fast["steady"]["windows"]["elements"]
    ]
    write(folder / "fast.json", fast)

    second = measured(
        folder, "--seconds=1", "--compare", "fast.json", "--fail-if-slower=5%"
    )

    result = json.loads(second.stdout)
    assert first.returncode == 0
    assert json.loads(first.stdout)["comparison"] is None
    assert second.returncode == 1, second.stderr
    assert result["comparison"]["gate"]["verdict"] == "slower"
    assert "worse: " in second.stderr
    assert "gate failed: surely more than 5 % of the rate is lost." in second.stderr


def test_a_run_with_a_bad_base_is_refused_before_it_begins(folder, capfd):
    """No ten seconds of measuring before that; nor before a gate without a base."""
    (folder / "dataset.py").write_text("raise SystemExit('was run')")
    write(folder / "empty.json", synthetic(steady=None))

    def refused(*arguments):
        try:
            code = main(["dataset.py", *arguments])
        except SystemExit as error:
            code = error.code
        return code, " ".join(capfd.readouterr().err.split())

    missing = refused("--compare", "none.json")
    nothing = refused("--compare", "empty.json")
    baseless = refused("--fail-if-slower", "5%")

    assert missing[0] == 2
    assert "none.json cannot be read" in missing[1]
    assert nothing[0] == 4
    assert baseless[0] == 2
    assert "--fail-if-slower needs --compare BASE.json." in baseless[1]


@pytest.mark.process
def test_a_run_that_measured_nothing_does_not_hold_the_gate(folder):
    """An empty dataset: 4, whatever the base."""
    (folder / "dataset.py").write_text(DATASET)

    done = measured(
        folder, "--set", "take=1", "--compare", "base.json", "--fail-if-slower", "5%"
    )

    assert done.returncode == 4
    assert json.loads(done.stdout)["comparison"] is None
    assert "not compared: this run has no rate" in " ".join(done.stderr.split())
