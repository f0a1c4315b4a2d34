"""The native core alone: the programs of tests/cc in every build, and planted bugs.

    tests/cc/*.cc --g++--> plain | delays | thread sanitizer | address and undefined

The programs need the headers of ipufeed/cc and nothing else, so this file runs without
TensorFlow. A build that is planted with a bug must fail: that is the test of the tests.
Which program promises what is said at the top of each.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import subprocess

import pytest

CC = pathlib.Path(__file__).parent / "cc"
HEADERS = pathlib.Path(__file__).parents[1] / "ipufeed" / "cc"
COMPILE_LIMIT_S = 240.0
RUN_LIMIT_S = 240.0  # beyond the programs' own watchdog: only a hang of it gets there

PROGRAMS = (
    "allocation_test",
    "marks_test",
    "transfer_buffer_test",
    "step_clock_test",
    "ring_test",
    "ring_property_test",
    "ring_stress_test",
    "ring_close_test",
    "wait_test",
    "feed_test",
    "result_queue_test",
    "rendezvous_test",
)
THREADED = PROGRAMS[5:]
COMMON = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{HEADERS}")
PLAIN = ("-O2", "-D_GLIBCXX_ASSERTIONS")
DELAYS = (*PLAIN, "-DIPUFEED_TEST_DELAYS", "-DIPUFEED_TEST_SCALE=2")
THREAD = ("-O1", "-g", "-fsanitize=thread", "-DIPUFEED_TEST_SCALE=10")
THREAD_DELAYS = (*THREAD, "-DIPUFEED_TEST_DELAYS")
ADDRESS = (
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-DIPUFEED_TEST_SCALE=4",
)
SANITIZER_OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "ASAN_OPTIONS": "detect_leaks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@dataclasses.dataclass(frozen=True)
class Build:
    """One program with one set of flags."""

    program: str
    flags: tuple[str, ...]

    def __str__(self) -> str:
        """The name of the binary, and the id of the test."""
        words = (flag.lstrip("-").replace("=", "_") for flag in self.flags)
        return "-".join([self.program, *words]).replace(",", "_")


def builds(programs, flags):
    return [pytest.param(Build(p, flags), id=p) for p in programs]


def planted(program, macro):
    return pytest.param(Build(program, (*THREAD, f"-D{macro}")), id=macro)


def compile_build(build, folder):
    binary = folder / str(build)
    source = CC / f"{build.program}.cc"
    command = ["g++", *COMMON, *build.flags, str(source), "-o", str(binary)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return binary


@pytest.fixture(scope="session")
def binaries(request, tmp_path_factory):
    """What the selected tests need, all compiled before any of it runs.

    Two compilers at a time. The programs come later and alone, because threads that
    spin for each other take long beside compilers.
    """
    if shutil.which("g++") is None:
        pytest.fail("g++ is missing, and so is every proof here: apt-get install g++")
    folder = tmp_path_factory.mktemp("cc")
    items = [item for item in request.session.items if hasattr(item, "callspec")]
    wanted = {item.callspec.params.get("build") for item in items}
    with concurrent.futures.ThreadPoolExecutor(2) as compilers:
        return {
            build: compilers.submit(compile_build, build, folder)
            for build in sorted(wanted - {None}, key=str)
            if isinstance(build, Build)
        }


def run_limited(command):
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
        env=os.environ | SANITIZER_OPTIONS,
    )


@pytest.fixture
def run(binaries, build):
    """What came of running the build."""
    binary = str(binaries[build].result())
    done = run_limited([binary])
    if "unexpected memory mapping" in done.stderr:  # g++ 12's TSan and a random layout
        done = run_limited(["setarch", "-R", binary])
    return done


def assert_passed(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert done.stderr == ""  # a sanitizer's report, even one that it survived


@pytest.mark.parametrize("build", builds(PROGRAMS, PLAIN))
def test_core_keeps_its_promises(run):
    """Each program passes as it ships, with the library's own assertions on."""
    assert_passed(run)


@pytest.mark.parametrize("build", builds(THREADED, DELAYS))
def test_core_keeps_its_promises_under_random_delays(run):
    """Delays between any two steps of either side change nothing but the time."""
    assert_passed(run)


@pytest.mark.parametrize("build", builds(THREADED, THREAD_DELAYS))
def test_core_has_no_data_race(run):
    """ThreadSanitizer has nothing to report, without a suppression."""
    assert_passed(run)


@pytest.mark.parametrize("build", builds(PROGRAMS, ADDRESS))
def test_core_has_no_memory_error(run):
    """Neither a bad access, nor a leak, nor undefined behaviour."""
    assert_passed(run)


@pytest.mark.parametrize(
    "build",
    [planted("ring_stress_test", f"IPUFEED_WEAKEN={n}") for n in range(1, 5)]
    + [planted("ring_close_test", f"IPUFEED_WEAKEN={n}") for n in range(5, 7)],
)
def test_each_memory_order_is_guarded(run):
    """With any one of the orders [1] to [6] relaxed we see the data race."""
    assert run.returncode == 66, run.stdout + run.stderr
    assert "WARNING: ThreadSanitizer: data race" in run.stderr


@pytest.mark.parametrize(
    "build", [planted("rendezvous_test", "IPUFEED_PLANT_UNLOCKED_LEAVE")]
)
def test_the_lock_of_who_leaves_is_guarded(run):
    """A member that ends beside the lock is seen: its end could be missed."""
    assert run.returncode == 66, run.stdout + run.stderr
    assert "WARNING: ThreadSanitizer: data race" in run.stderr


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build(p, (*DELAYS, "-DIPUFEED_PLANT_DRAINED_ORDER")), id=p)
        for p in ("ring_close_test", "feed_test")
    ],
)
def test_the_order_of_the_two_looks_in_drained_is_guarded(run):
    """Looking into the ring before looking at the end loses last elements: seen.

    No data race, so no sanitizer could: only many closings can.
    """
    assert run.returncode == 1, run.stdout + run.stderr
    # The names of the tests that say so.
    assert "the_last_element" in run.stderr or "lose_and_double_nothing" in run.stderr
