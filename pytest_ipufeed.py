"""The pytest plugin: tests of the rates of tf.data pipelines that do not flake.

    def test_the_feed_keeps_up(feed_benchmark):
        feed_benchmark(make_dataset(), seconds=5)

    @pytest.mark.feed_budget(samples_per_second=2000, within="5%")
    ...
    pytest --ipufeed-json results            one result for each test
    pytest --ipufeed-compare earlier         compares with those of an earlier run

A test fails only if a rate is surely too low, with the confidence of `compare`. A verdict
that cannot be determined is a FeedWarning and a line in the summary;
`-W error::pytest_ipufeed.FeedWarning` makes it a failure.

This module stands next to the package, since pytest imports its plugins in every run of
every project in an environment, and `import ipufeed` imports TensorFlow. The rest is in
ipufeed/benchmark/plugin/guard.py, which the fixture imports.
"""

from __future__ import annotations

import argparse
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ipufeed.benchmark import Result
    from ipufeed.benchmark.plugin.guard import Budget

PROPERTY = "feed_benchmark"
# A test's name, if it measured: without, or with an earlier result.
UNMATCHED, MATCHED = "feed_benchmark_unmatched", "feed_benchmark_matched"
MARKER = (
    'feed_budget(samples_per_second=None, elements_per_second=None, within="0%"): the '
    "test fails if a rate of feed_benchmark() is surely below this rate, less `within`."
)
MESSAGE = pytest.StashKey[str]()
LOSS = 0.05  # of the earlier rate, by default
NO_BASE = (
    "nothing was compared: --ipufeed-fail-if-slower needs --ipufeed-compare, a folder "
    "with earlier results."
)


class FeedWarning(pytest.PytestWarning):
    """Whether a pipeline is too slow could not be determined."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options, without importing ipufeed."""
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
        type=_allowed_loss,
        help="with --ipufeed-compare: the fraction of the earlier rate that may be lost "
        "(default: 5%%)",
    )


def _allowed_loss(text: str) -> float:
    from ipufeed.benchmark.comparing.allowed_loss import parse_allowed_loss

    return parse_allowed_loss(text)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and refuses unusable folders."""
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
def feed_benchmark(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[..., Result]]:
    """Measures with `feed_benchmark(dataset, **settings)`, which returns the Result.

    The settings are those of ipufeed.benchmark.Settings: seconds=5, elements=..., and so
    on. The call fails the test if the dataset fails or has no rate, or if its rate is
    surely below the marker's budget or surely lower than that of --ipufeed-compare.
    """
    try:
        from ipufeed.benchmark import Settings
        from ipufeed.benchmark.plugin.guard import Checker, NotMeasuredError
        from ipufeed.benchmark.plugin.result_names import test_name
        from ipufeed.errors import ComparisonError
    except ImportError as error:  # its message has the remedy
        pytest.fail(str(error), pytrace=False)
    item = request.node
    budget = _budget(item)
    option = request.config.getoption
    folder, earlier = option("--ipufeed-json"), option("--ipufeed-compare")
    called_in = request.config.invocation_params.dir
    name = test_name(item.path, item.nodeid, called_in)
    if folder is not None or earlier is not None:
        _refuse_same_names(request, name, test_name)
    slower = option("--ipufeed-fail-if-slower")
    loss = LOSS if slower is None else slower
    checker = Checker(name, budget, folder, earlier, loss)

    def benchmark(dataset: object, **settings: float | bool | None) -> Result:
        __tracebackhide__ = True
        try:
            outcome = checker.measure(dataset, Settings(**settings))  # type: ignore[arg-type]  # checked by Settings
        except (NotMeasuredError, ComparisonError) as error:
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
    passed = getattr(item, "_feed_benchmark_passed", True)
    if budget is not None and passed and checker.measured == 0:
        pytest.fail(
            "@pytest.mark.feed_budget: the test has not called feed_benchmark(), so that "
            "nothing was compared with the budget.",
            pytrace=False,
        )


def _refuse_same_names(
    request: pytest.FixtureRequest,
    name: str,
    name_of: Callable[[Path, str, Path], str],
) -> None:
    """Fails a test that has the name, and result file, of another project's test."""
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


def _budget(item: pytest.Item) -> Budget | None:
    """The marker's budget, or None; fails the test if its arguments are wrong."""
    from ipufeed.benchmark.plugin.guard import Budget

    marker = item.get_closest_marker("feed_budget")
    if marker is None:
        return None
    takes = inspect.signature(Budget.of).parameters
    wrong = [
        *map(repr, marker.args),
        *(key for key in marker.kwargs if key not in takes),
    ]
    if wrong:
        pytest.fail(
            f"@pytest.mark.feed_budget takes {', '.join(takes)}, each by its name, got "
            f"{wrong[0]}.",
            pytrace=False,
        )
    try:
        return Budget.of(**marker.kwargs)
    except (TypeError, ValueError, argparse.ArgumentTypeError) as error:
        pytest.fail(f"@pytest.mark.feed_budget: {error}", pytrace=False)
        return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test with a budget that does not measure."""
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
) -> Iterator[None]:
    """Records whether the test itself passed: only then must it have measured."""
    if call.when == "call":
        item._feed_benchmark_passed = call.excinfo is None  # type: ignore[attr-defined]
    return (yield)  # type: ignore[return-value]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Warns if there was nothing to compare the results with."""
    config = session.config
    earlier = config.getoption("--ipufeed-compare")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    if earlier is None:
        given = config.getoption("--ipufeed-fail-if-slower") is not None
        if given and _properties(reporter, PROPERTY):
            _warn(session, NO_BASE)
        return
    unmatched = _properties(reporter, UNMATCHED)
    if not unmatched or _properties(reporter, MATCHED):
        return
    from ipufeed.benchmark.plugin.result_names import nothing_matched

    message = nothing_matched(earlier, list(dict.fromkeys(unmatched)))
    if message is not None:
        _warn(session, message)


def _warn(session: pytest.Session, message: str) -> None:
    """Warns that nothing was compared; the summary has the message, too."""
    session.config.stash[MESSAGE] = message
    try:
        warnings.warn(FeedWarning(message), stacklevel=1)
    except FeedWarning:  # -W error: a failure of the tests, not of pytest
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _properties(reporter: pytest.TerminalReporter, name: str) -> list[str]:
    """The values of a property of all tests, also of pytest-xdist's workers."""
    return [
        value
        for reports in reporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, value in report.user_properties
        if key == name
    ]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Prints a line for each measurement, and one if none could be compared."""
    lines = _properties(terminalreporter, PROPERTY)
    if not lines:
        return
    terminalreporter.section("feed benchmarks")
    for line in lines:
        terminalreporter.line(line)
    if MESSAGE in config.stash:
        terminalreporter.line(config.stash[MESSAGE], yellow=True)
