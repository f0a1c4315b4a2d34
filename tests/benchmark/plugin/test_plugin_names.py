"""Names of a test's result, and budgets in words."""

import pytest

import pytest_ipufeed as pytest_ipufeed  # one for all runs: pytest keeps -W's classes
from ipufeed.benchmark.plugin.guard import Budget
from ipufeed.benchmark.plugin.result_names import file_name


@pytest.mark.parametrize(
    "name", ["t.py::test[../../etc/x]", "t.py::test[a b]", "..", "x" * 500, "t::ü\n"]
)
def test_a_result_stays_in_its_folder_under_any_name(name):
    """Names of tests hold anything; files' names are plain, short and never hidden."""
    file = file_name(name, 1)

    assert "/" not in file
    assert not file.startswith(".")
    assert file.isascii()
    assert len(file) < 130
    assert file_name(name, 2) != file != file_name(name + " ", 1)


def test_a_budget_is_described_in_words():
    """As a failing test prints it."""
    assert str(Budget.of(samples_per_second=2000, within="5%")) == (
        "2,000 samples/s less 5 %"
    )
