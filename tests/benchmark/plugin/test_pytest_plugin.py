"""What the pytest plugin promises: a test fails where a rate is surely too low, only there.

Each test writes a project of its own and runs pytest on it, in this process; one does so in
another, to see that suites which do not use the plugin do not pay for it. The sources
sleep, and the budgets are far from their rates: a busy machine changes no outcome.
"""

import json
import os
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT
from synthetic import synthetic

import pytest_ipufeed as pytest_ipufeed  # one for all runs: pytest keeps -W's classes
from ipufeed.benchmark.plugin.result_names import test_name as name_of

pytestmark = pytest.mark.long

pytest_plugins = ["pytester"]

HEAD = """
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

def slow():  # 5 ms for an element of 4 samples
    one = tf.data.Dataset.from_tensors(tf.zeros([8])).repeat().batch(4)
    return one.apply(testing.sleep(5000))
"""


@pytest.fixture
def project(pytester):
    """Runs pytest on a test file's text, after what all of them need."""

    def run(text, *options):
        pytester.makepyfile(test_feed=HEAD + text)
        # Else it would inherit that warnings are errors here.
        warn = ("-W", "always::pytest_ipufeed.FeedWarning")
        return pytester.runpytest_inprocess("-p", "pytest_ipufeed", *warn, *options)

    return run


def words(outcome):
    """Pytest's output, on one line."""
    return " ".join(outcome.stdout.str().split())


def test_a_fixture_measures_and_gives_the_result(project):
    """Settings as keywords; the result is that of measure(); the summary has its rate."""
    outcome = project(
        """
def test_it(feed_benchmark):
    result = feed_benchmark(slow(), elements=20, epochs=3)
    assert result.elements == 60
    assert result.steady["elements_per_second"] > 0
    assert result.dataset["name"].endswith("test_it")
"""
    )

    outcome.assert_outcomes(passed=1)
    outcome.stdout.re_match_lines(
        [r".* feed benchmarks .*", r".*::test_it: .* elements/s"]
    )


@pytest.mark.parametrize(
    ("budget", "outcomes", "output"),
    [
        ("samples_per_second=1", {"passed": 1}, "budget held"),
        ("elements_per_second=1e6", {"failed": 1}, "budget missed: "),
        ('samples_per_second=1e6, within="5%"', {"failed": 1}, "samples/s less 5 %."),
    ],
)
def test_a_budget_is_held_or_missed(project, budget, outcomes, output):
    """Far below the rate it passes, far above it fails, in a sentence with the interval."""
    outcome = project(
        f"""
@pytest.mark.feed_budget({budget})
def test_it(feed_benchmark):
    feed_benchmark(slow(), seconds=1)
"""
    )

    outcome.assert_outcomes(**outcomes)
    assert output in words(outcome)


UNSURE = """
@pytest.mark.feed_budget(elements_per_second=200)
def test_it(feed_benchmark):
    feed_benchmark(slow().take(6))
"""


def test_an_inconclusive_comparison_is_a_warning_not_a_failure(project):
    """Six elements are not enough."""
    outcome = project(UNSURE)

    outcome.assert_outcomes(passed=1)
    assert "FeedWarning: budget cannot tell: " in words(outcome)


def test_an_inconclusive_comparison_fails_on_request(project):
    """With pytest's own switch."""
    outcome = project(UNSURE, "-W", "error::pytest_ipufeed.FeedWarning")

    outcome.assert_outcomes(failed=1)
    assert "the run is too short for its error" in words(outcome)


def test_results_are_written_and_compared_with_those_of_an_earlier_run(
    project, pytester
):
    """One JSON for each measurement; the second run finds those of the first."""
    text = """
@pytest.mark.parametrize("name", ["a/b", "a-b"])
def test_it(feed_benchmark, name):
    feed_benchmark(slow(), elements=20, epochs=3)
    feed_benchmark(slow(), elements=20, epochs=3)
"""
    first = project(text, "--ipufeed-json", "first")
    second = project(text, "--ipufeed-json", "second", "--ipufeed-compare", "first")
    results = sorted(pytester.path.glob("second/*.json"))
    comparisons = [json.loads(path.read_text())["comparison"] for path in results]

    first.assert_outcomes(passed=2)
    second.assert_outcomes(passed=2)
    assert [path.name for path in results] == sorted(
        path.name for path in pytester.path.glob("first/*.json")
    )
    assert len(results) == 4
    assert all(comparison["gate"]["allowed_loss"] == 0.05 for comparison in comparisons)
    assert words(second).count("of the earlier rate: ") >= 4


def test_what_is_surely_slower_than_before_fails(project, pytester):
    """An earlier result of ten thousand times the rate, on this very machine."""
    text = """
def test_it(feed_benchmark):
    feed_benchmark(slow(), elements=20, epochs=3)
"""
    project(text, "--ipufeed-json", "earlier")
    (path,) = pytester.path.glob("earlier/*.json")
    earlier = json.loads(path.read_text())
    earlier["machine"]["cpus_used_by_others"] = 0.0
    earlier["steady"] = synthetic(factor=1000.0)["steady"]
    path.write_text(json.dumps(earlier))

    outcome = project(text, "--ipufeed-compare", "earlier")

    outcome.assert_outcomes(failed=1)
    assert "gate failed: surely more than 5 % of the rate is lost." in words(outcome)


def test_a_test_without_an_earlier_result_passes_with_a_note(project, pytester):
    """A new test has none."""
    pytester.mkdir("earlier")

    outcome = project(
        "def test_it(feed_benchmark):\n    feed_benchmark(slow().take(20))\n",
        "--ipufeed-compare",
        "earlier",
    )

    outcome.assert_outcomes(passed=1)
    assert "no earlier result" in words(outcome)


MEASURES = "def test_it(feed_benchmark):\n    feed_benchmark(slow().take(20))\n"


def checkout(pytester, name, *marks):
    """A folder with a test that measures, and empty files that make it a project."""
    folder = pytester.mkdir(name)
    (folder / "test_feed.py").write_text(HEAD + MEASURES)
    for mark in marks:
        (folder / mark).touch()
    return folder


@pytest.mark.parametrize("marks", [(), ("setup.py",)], ids=["bare", "setup.py"])
def test_another_checkout_is_compared_with_however_the_folder_is_given(
    pytester, monkeypatch, marks
):
    """A folder that exists, behind a space, moves pytest's rootdir and no result's name."""
    for name in ("main", "branch"):
        checkout(pytester, name, *marks)
    pytester.mkdir("base")
    monkeypatch.chdir("main")
    pytester.runpytest_inprocess(
        "-p", "pytest_ipufeed", "--ipufeed-json", "../base"
    ).assert_outcomes(passed=1)
    monkeypatch.chdir("../branch")

    given = [["--ipufeed-compare", "../base"], ["--ipufeed-compare=../base"]]
    output = [
        words(pytester.runpytest_inprocess("-p", "pytest_ipufeed", *each))
        for each in given
    ]

    for each in output:
        assert "of the earlier rate: " in each
        assert "no earlier result" not in each


NOWHERE = "nothing was compared: --ipufeed-compare must be a folder with results of"


def test_results_of_other_tests_are_reported(project, pytester):
    """A warning and a line in the summary name what is there and what was looked for."""
    (pytester.mkdir("earlier") / "test_other.py-test_it-12345678.json").touch()

    outcome = project(MEASURES, "--ipufeed-compare", "earlier")

    outcome.assert_outcomes(passed=1)
    assert outcome.ret == pytest.ExitCode.OK
    output = words(outcome)
    assert f"FeedWarning: {NOWHERE}" in output
    assert output.count(NOWHERE) == 2
    assert (
        "earlier holds test_other.py-test_it-12345678.json, not test_feed.py" in output
    )


def test_results_of_other_tests_fail_on_request(project, pytester):
    """With pytest's own switch: an exit code, though no test has failed."""
    (pytester.mkdir("earlier") / "test_other.py-test_it-12345678.json").touch()

    outcome = project(
        MEASURES,
        "--ipufeed-compare",
        "earlier",
        "-W",
        "error::pytest_ipufeed.FeedWarning",
    )

    assert outcome.ret == pytest.ExitCode.TESTS_FAILED
    assert NOWHERE in words(outcome)


def test_a_gate_without_an_earlier_result_is_reported(project):
    outcome = project(MEASURES, "--ipufeed-fail-if-slower", "5%")

    outcome.assert_outcomes(passed=1, warnings=1)
    assert words(outcome).count("--ipufeed-fail-if-slower needs --ipufeed-compare") == 2


def test_namesakes_of_two_projects_do_not_share_a_file(pytester):
    """Both would be test_feed.py::test_it; the second result would replace the first."""
    for name in ("one", "other"):
        (checkout(pytester, name, "pyproject.toml") / "__init__.py").touch()

    outcome = pytester.runpytest_inprocess(
        "-p", "pytest_ipufeed", "--ipufeed-json", "results"
    )

    outcome.assert_outcomes(errors=2)
    assert "Run the projects one by one, with a folder for each." in words(outcome)


@pytest.mark.parametrize(
    ("marked", "name"),
    [
        ("a/b", "t.py::T::test[x::y]"),
        ("a", "b/t.py::T::test[x::y]"),
        (None, "a/b/t.py::T::test[x::y]"),
    ],
)
def test_a_tests_name_begins_at_its_project(tmp_path, marked, name):
    """The nearest one above the file, else where pytest was called."""
    (tmp_path / "a/b").mkdir(parents=True)
    if marked is not None:
        (tmp_path / marked / "pyproject.toml").touch()

    nodeid = "../elsewhere/t.py::T::test[x::y]"
    assert name_of(tmp_path / "a/b/t.py", nodeid, tmp_path) == name


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            """
def test_it(feed_benchmark):
    bad = slow().take(9).concatenate(
        slow().map(lambda x: tf.ensure_shape(tf.reshape(x, [-1]), [3]))
    )
    feed_benchmark(bad)
""",
            "the dataset failed at element 9 (from 0) with InvalidArgumentError",
        ),
        (
            """
@pytest.mark.feed_budget(elements_per_second=1)
def test_it(feed_benchmark):
    feed_benchmark(slow().take(1))
""",
            "There is nothing to compare with 1 elements/s.",
        ),
    ],
    ids=["fails", "one element"],
)
def test_what_measured_nothing_fails(project, text, output):
    """No budget is held by a dataset that fails, or has no rate."""
    outcome = project(text)

    outcome.assert_outcomes(failed=1)
    assert output in words(outcome)


@pytest.mark.parametrize(
    ("marker", "body", "outcomes", "output"),
    [
        ("", "pass", {"passed": 1, "errors": 1}, "either `samples_per_second` or"),
        ("samples_per_second=-1", "pass", {"errors": 1}, "must be above 0, got -1"),
        ("rate=1", "pass", {"errors": 1}, "each by its name, got rate."),
        ("200", "pass", {"errors": 1}, "each by its name, got 200."),
        (
            "samples_per_second=1, within='5'",
            "pass",
            {"errors": 1},
            "as 5% or 0.05, got '5'",
        ),
        (
            "samples_per_second=1",
            "pass",
            {"passed": 1, "errors": 1},
            "the test has not called feed_benchmark()",
        ),
        ("samples_per_second=1", "pytest.skip()", {"skipped": 1}, "1 skipped"),
    ],
    ids=[
        *("no rate", "negative", "other name", "no name"),
        *("no percent", "unused", "skipped"),
    ],
)
def test_a_marker_that_guards_nothing_is_an_error(
    project, marker, body, outcomes, output
):
    """A budget that makes no sense, or that nothing is held to; unless it was skipped."""
    outcome = project(
        f"""
@pytest.mark.feed_budget({marker})
def test_it(feed_benchmark):
    {body}
"""
    )

    got = outcome.parseoutcomes()
    assert {key: got[key] for key in got if key in ("errors", "skipped")} == {
        key: value for key, value in outcomes.items() if key != "passed"
    }
    assert output in words(outcome)


def test_a_marker_without_the_fixture_is_an_error(project):
    """It would always be held."""
    outcome = project(
        "@pytest.mark.feed_budget(samples_per_second=1)\ndef test_it():\n    pass\n"
    )

    outcome.assert_outcomes(errors=1)
    assert "is for tests that take the fixture `feed_benchmark`" in words(outcome)


def test_a_folder_that_is_not_there_is_refused_before_any_test(project, pytester):
    """As pytest refuses its own options."""
    outcome = project("def test_it():\n    pass\n", "--ipufeed-compare", "nowhere")

    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    assert "must be a folder that --ipufeed-json has filled" in outcome.stderr.str()


@pytest.mark.process
def test_suites_that_do_not_use_it_do_not_pay_for_it(tmp_path):
    """With the plugin loaded a test of nothing imports neither TensorFlow nor numpy."""
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\n\ndef test_it():\n"
        "    heavy = {'ipufeed', 'tensorflow', 'numpy', 'pyarrow'} & set(sys.modules)\n"
        "    assert not heavy\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_ipufeed", "-W", "error"],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "feed benchmarks" not in done.stdout
