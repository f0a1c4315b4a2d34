"""The pytest plugin: rates of tf.data pipelines as tests that do not flake.

    def test_the_feed_keeps_up(feed_benchmark):
        feed_benchmark(make_dataset(), seconds=5)

    @pytest.mark.feed_budget(samples_per_second=2000, within="5%")
    ...
    pytest --ipufeed-json results            one result for each test
    pytest --ipufeed-compare earlier         against those of an earlier run

A test fails only where a rate is surely too low, with the confidence of `compare`. What
cannot be determined is a FeedWarning and a line in the summary; to get a failure, say
`-W error::pytest_ipufeed.FeedWarning`.

A module of its own next to the package: pytest imports its plugins in every run of every
project in an environment, and `import ipufeed` brings TensorFlow. That, and everything
else, is in ipufeed/benchmark/plugin/guard.py, which is imported when a test asks for it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROPERTY = "feed_benchmark"
# A test's name, if it measured and there was no earlier result.
UNMATCHED, MATCHED = "feed_benchmark_unmatched", "feed_benchmark_matched"
MARKER = (
    'feed_budget(samples_per_second=None, elements_per_second=None, within="0%"): what '
    "feed_benchmark() measures in this test must not surely be below that rate, less "
    "`within`."
)
MESSAGE = pytest.StashKey[str]()


class FeedWarning(pytest.PytestWarning):
    """Whether a pipeline is too slow could not be determined."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; nothing is imported for them."""
    group = parser.getgroup("ipufeed", "benchmarks of tf.data pipelines")
    group.addoption(
        "--ipufeed-json",
        type=Path,
        metavar="DIR",
        help="write the result of each feed_benchmark() into DIR",
    )
    group.addoption(
        "--ipufeed-compare",
        type=Path,
        metavar="DIR",
        help="compare each result with that of the same test which --ipufeed-json has "
        "written into DIR",
    )
    group.addoption(
        "--ipufeed-fail-if-slower",
        metavar="LOSS",
        default=0.05,
        type=_share,
        help="with --ipufeed-compare: the share of the earlier rate that may be lost "
        "(default: 5%%)",
    )


def _share(text: str) -> float:
    from ipufeed.benchmark.comparing.gate import share

    return share(text)


def pytest_configure(config: pytest.Config) -> None:
    """Knows the marker, and refuses folders that cannot be."""
    config.addinivalue_line("markers", MARKER)
    earlier = config.getoption("--ipufeed-compare")
    if earlier is not None and not earlier.is_dir():
        raise pytest.UsageError(
            f"--ipufeed-compare must be a folder that --ipufeed-json has filled, got "
            f"{earlier}."
        )
    folder = config.getoption("--ipufeed-json")
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(
                f"--ipufeed-json must be a folder: {folder}: {error.strerror}."
            ) from error
    if (earlier, folder) != (None, None):
        import ipufeed  # noqa: F401  # before a test module runs TensorFlow's first op


@pytest.fixture
def feed_benchmark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """`feed_benchmark(dataset, **settings)` measures and returns the Result.

    The settings are those of ipufeed.benchmark.Settings: seconds=5, elements=..., and so
    on. The test fails, there and then, if the dataset fails or gives no rate, if its rate
    is surely below the marker's budget, or surely lower than that of --ipufeed-compare.
    """
    try:
        from ipufeed.benchmark.plugin.guard import Budget, Guard, GuardError
        from ipufeed.benchmark.plugin.result_names import test_name
        from ipufeed.errors import ComparisonError
    except ImportError as error:  # the native library says what to do
        pytest.fail(str(error), pytrace=False)
    item = request.node
    budget = _budget(item, Budget)
    option = request.config.getoption
    folder, earlier = option("--ipufeed-json"), option("--ipufeed-compare")
    called_in = request.config.invocation_params.dir
    name = test_name(item.path, item.nodeid, called_in)
    if folder is not None or earlier is not None:
        _refuse_namesakes(request, name, test_name)
    guard = Guard(name, budget, folder, earlier, option("--ipufeed-fail-if-slower"))

    def benchmark(dataset: Any, **settings: Any) -> Any:
        __tracebackhide__ = True
        try:
            outcome = guard.measure(dataset, settings)
        except (GuardError, ComparisonError) as error:
            pytest.fail(str(error), pytrace=False)
        item.user_properties.append((PROPERTY, outcome.line))
        if earlier is not None:
            kind = MATCHED if outcome.compared else UNMATCHED
            item.user_properties.append((kind, name))
        if outcome.failure is not None:
            pytest.fail(outcome.failure, pytrace=False)
        if outcome.doubt is not None:
            item.warn(FeedWarning(outcome.doubt))
        return outcome.result

    yield benchmark
    call = getattr(item, "_feed_benchmark_passed", True)
    if budget is not None and call and guard.measured == 0:
        pytest.fail(
            "@pytest.mark.feed_budget: the test has not called feed_benchmark(), so that "
            "nothing was held to the budget.",
            pytrace=False,
        )


def _refuse_namesakes(request: pytest.FixtureRequest, name: str, name_of: Any) -> None:
    """Tests of two projects in one run would write into one file."""
    called_in = request.config.invocation_params.dir
    for other in request.session.items:
        if other.path == request.node.path:
            continue
        if "feed_benchmark" not in getattr(other, "fixturenames", ()):
            continue
        if name_of(other.path, other.nodeid, called_in) == name:
            pytest.fail(
                f"{request.node.path} and {other.path} are in projects of their own, and "
                f"both have {name}: the results would have one file. Run the projects "
                "one by one, with a folder for each.",
                pytrace=False,
            )


def _budget(item: pytest.Item, kind: Any) -> Any:
    """The marker's budget, or None; refuses what makes no sense as a failure."""
    marker = item.get_closest_marker("feed_budget")
    if marker is None:
        return None
    try:
        return kind.of(*marker.args, **marker.kwargs)
    except (TypeError, ValueError, argparse.ArgumentTypeError) as error:
        pytest.fail(f"@pytest.mark.feed_budget: {error}", pytrace=False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A budget on a test that measures nothing would be held for ever."""
    if item.get_closest_marker("feed_budget") is None:
        return
    if "feed_benchmark" not in getattr(item, "fixturenames", ()):
        pytest.fail(
            "@pytest.mark.feed_budget is for tests that take the fixture "
            "`feed_benchmark`, and this one does not.",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[Any]:
    """Remembers whether the test itself failed or was skipped: then nothing is missing."""
    if call.when == "call":
        item._feed_benchmark_passed = call.excinfo is None  # type: ignore[attr-defined]
    return (yield)  # type: ignore[return-value]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Warns if an earlier run's results belong to none of the tests that measured."""
    config = session.config
    earlier = config.getoption("--ipufeed-compare")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if earlier is None or reporter is None or hasattr(config, "workerinput"):
        return
    unmatched = _properties(reporter, UNMATCHED)
    if not unmatched or _properties(reporter, MATCHED):
        return
    from ipufeed.benchmark.plugin.result_names import nothing_matched

    message = nothing_matched(earlier, list(dict.fromkeys(unmatched)))
    if message is None:
        return
    config.stash[MESSAGE] = message
    try:
        warnings.warn(FeedWarning(message), stacklevel=1)
    except FeedWarning:  # -W error: a failure, and not one of pytest
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _properties(reporter: Any, name: str) -> list[str]:
    """What the tests have noted under a name; also in pytest-xdist's other processes."""
    return [
        value
        for reports in reporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, value in report.user_properties
        if key == name
    ]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """A line for each measurement, and one if none of them could be compared."""
    lines = _properties(terminalreporter, PROPERTY)
    if not lines:
        return
    terminalreporter.section("feed benchmarks")
    for line in lines:
        terminalreporter.line(line)
    if MESSAGE in config.stash:
        terminalreporter.line(config.stash[MESSAGE], yellow=True)
