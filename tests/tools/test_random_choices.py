"""Random choices of the tests: another seed in each run, and the same again if given."""

import re
import subprocess

import pytest
import seeds
from helpers import DEADLOCK_S, ROOT

PROGRAM = '#include "check.h"\nTEST(nothing) { CHECK(check::seed() != %s); }\n'


def test_each_run_has_another_seed_unless_one_is_given():
    """It is kept in the environment, for the processes that tests start."""
    chosen = {seeds.choose({}) for _ in range(8)}
    kept = {}

    assert len(chosen) > 1
    assert seeds.choose(kept) == int(kept[seeds.NAME])
    assert seeds.choose({seeds.NAME: "17"}) == 17
    with pytest.raises(ValueError, match="IPUFEED_TEST_SEED must be an integer"):
        seeds.choose({seeds.NAME: "x"})


def test_a_generator_is_the_same_for_the_same_names():
    """And another one for others."""
    one, same, other = (
        [seeds.generator(*names).random() for _ in range(3)]
        for names in (("a", 1), ("a", 1), ("a", 2))
    )

    assert one == same
    assert one != other


def test_the_report_of_a_run_names_its_seed(pytestconfig):
    """In its header; if tests fail, in its summary, too."""
    lines = pytestconfig.hook.pytest_report_header(
        config=pytestconfig, start_path=pytestconfig.rootpath
    )

    assert f"{seeds.NAME}={seeds.choose()}" in lines


@pytest.mark.process
def test_a_native_program_prints_its_seed_and_takes_one(tmp_path):
    """Without the variable each run has another one; a failure names it."""
    source, binary = tmp_path / "seed_test.cc", tmp_path / "seed_test"
    source.write_text(PROGRAM % 17)
    includes = [f"-I{ROOT / 'tests' / 'cc'}", "-std=c++17", "-pthread"]
    subprocess.run(
        ["g++", *includes, str(source), "-o", str(binary)],
        check=True,
        timeout=DEADLOCK_S,
    )

    def run(**environment):
        return subprocess.run(
            [str(binary)],
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLOCK_S,
            env=environment,
        )

    found = [re.search(r"IPUFEED_TEST_SEED=(\d+)", run().stdout) for _ in range(8)]
    assert len({match[1] for match in found}) > 1
    failed = run(IPUFEED_TEST_SEED="17")
    assert failed.returncode == 1
    assert "(IPUFEED_TEST_SEED=17)" in failed.stderr
