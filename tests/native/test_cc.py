"""The native core alone: the programs of tests/cc in every build, and planted bugs.

    tests/cc/*.cc --g++--> plain | delays | thread sanitizer | address and undefined

No program uses TensorFlow, whose library no sanitizer sees into. Those of PROGRAMS need
the headers of ipufeed/cc and nothing else. Those of STANDIN_PROGRAMS are linked with the
sources between the feeds and TensorFlow's kernels, which are compiled unchanged against
the headers of tests/cc/standin. A build that is planted with a bug must fail: that is the
test of the tests. Which program promises what stands at the top of each.

The suite runs each program once: those of one thread as they ship, the others with
random delays. The rest is marked `soak` and runs in `nox -s soak`: the plain builds of
programs of several threads, the sanitizers, the planted bugs. Objects are kept in pytest's
cache by what they are made of.
"""

import concurrent.futures
import functools
import importlib.util
import pathlib
import shutil
import signal

import pytest
from cc_programs import (
    DELAYS,
    STANDIN_PROGRAMS,
    THREAD,
    Build,
    builds,
    compile_object,
    drop_old,
    link,
    mutants,
    planted,
    run_limited,
)

# The first test of a process compiles for all of them, next to what else the machine
# does; each program that then runs has a limit of its own.
pytestmark = [pytest.mark.native, pytest.mark.timeout(1800)]

PROGRAMS = (
    "seeds_test",
    "allocation_test",
    "measuring_test",
    "spare_memory_test",
    "step_clock_test",
    "ring_test",
    "ring_property_test",
    "ring_stress_test",
    "ring_close_test",
    "wait_test",
    "feed_test",
    "result_queue_test",
    "replica_barrier_test",
)
SEQUENTIAL, THREADED = PROGRAMS[:6], PROGRAMS[6:]
PLAIN = ("-O2", "-D_GLIBCXX_ASSERTIONS")
THREAD_DELAYS = (*THREAD, "-DIPUFEED_TEST_DELAYS")
ADDRESS = (
    "-Og",  # -O1 takes half as much time again to compile, and no less to run
    "-g1",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-DIPUFEED_TEST_SCALE=4",
)


@functools.cache
def eigen() -> pathlib.Path:
    """The folder that holds Eigen's and TensorFlow's headers."""
    package = importlib.util.find_spec("tensorflow")
    assert package is not None
    assert package.origin is not None
    return pathlib.Path(package.origin).parent / "include" / "Eigen"


@pytest.fixture(scope="session")
def binaries(request, tmp_path_factory):
    """What the selected tests need, all compiled before any of it runs.

    Two compilers at a time. The programs come later and alone, because threads that
    spin for each other take long next to compilers.
    """
    if shutil.which("g++") is None:
        pytest.fail("g++ is missing, and so is every proof here: apt-get install g++")
    folder = tmp_path_factory.mktemp("cc")
    (folder / "eigen").mkdir()  # for all: two compilers at once would both make it
    (folder / "eigen" / "Eigen").symlink_to(eigen(), target_is_directory=True)
    kept = request.config.cache.mkdir("ipufeed_cc")
    drop_old(kept)
    items = [item for item in request.session.items if hasattr(item, "callspec")]
    params = {item.callspec.params.get("build") for item in items}
    wanted = sorted((each for each in params if isinstance(each, Build)), key=str)
    with concurrent.futures.ThreadPoolExecutor(2) as compilers:
        # Objects first: a link waits for its objects, and they must not wait for it.
        objects = {
            each: compilers.submit(compile_object, each, folder, kept)
            for each in sorted(
                {each for build in wanted for each in build.objects()},
                key=lambda each: (isinstance(each.source, pathlib.Path), each.stem),
            )
        }
        return {
            build: compilers.submit(link, build, objects, folder) for build in wanted
        }


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


@pytest.mark.parametrize("build", builds(SEQUENTIAL, PLAIN))
def test_core_keeps_its_promises(run):
    """Each program passes as it ships, with the library's own assertions on."""
    assert_passed(run)


@pytest.mark.soak
@pytest.mark.parametrize("build", builds(THREADED, PLAIN))
def test_threads_keep_the_promises_of_the_core_without_delays(run):
    """So does each program of several threads, at full speed."""
    assert_passed(run)


@pytest.mark.long
@pytest.mark.parametrize("build", builds((*THREADED, *STANDIN_PROGRAMS), DELAYS))
def test_core_keeps_its_promises_under_random_delays(run):
    """Delays between any two steps of either side change nothing but the time."""
    assert_passed(run)


@pytest.mark.soak
@pytest.mark.parametrize("build", builds((*THREADED, *STANDIN_PROGRAMS), THREAD_DELAYS))
def test_core_has_no_data_race(run):
    """ThreadSanitizer has nothing to report, without a suppression."""
    assert_passed(run)


@pytest.mark.soak
@pytest.mark.parametrize("build", builds((*PROGRAMS, *STANDIN_PROGRAMS), ADDRESS))
def test_core_has_no_memory_error(run):
    """Neither a bad access, nor a leak, nor undefined behaviour."""
    assert_passed(run)


@pytest.mark.soak
@pytest.mark.parametrize(
    "build",
    [planted("ring_stress_test", f"IPUFEED_WEAKEN={n}") for n in range(1, 5)]
    + [planted("ring_close_test", f"IPUFEED_WEAKEN={n}") for n in range(5, 7)]
    + [planted("wait_test", f"IPUFEED_WEAKEN={n}") for n in range(7, 9)]
    + [planted("pipeline_run_test", f"IPUFEED_WEAKEN={n}") for n in range(9, 11)],
)
def test_each_memory_order_is_guarded(run):
    """With any one of the orders [1] to [10] relaxed we see the data race."""
    assert run.returncode == 66, run.stdout + run.stderr
    assert "WARNING: ThreadSanitizer: data race" in run.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    "build", [planted("replica_barrier_test", "IPUFEED_PLANT_UNLOCKED_LEAVE")]
)
def test_the_lock_of_a_leaving_thread_is_guarded(run):
    """A member that ends without the lock is seen: its end could be missed."""
    assert run.returncode == 66, run.stdout + run.stderr
    assert "WARNING: ThreadSanitizer: data race" in run.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(Build(p, (*DELAYS, "-DIPUFEED_PLANT_DRAINED_ORDER")), id=p)
        for p in ("ring_close_test", "feed_test")
    ],
)
def test_the_order_of_the_two_reads_in_drained_is_guarded(run):
    """Looking into the ring before looking at the end loses last elements: seen.

    No data race, so no sanitizer could: only many closings can.
    """
    assert run.returncode == 1, run.stdout + run.stderr
    # The names of the tests that fail.
    assert "the_last_element" in run.stderr or "lose_and_double_nothing" in run.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    "build",
    mutants(
        THREAD_DELAYS,
        (
            "outfeed_test",
            "part_counted_without_the_lock",
            "feeds/outfeed.cc",
            "    MutexLock lock(rounds_mutex_);\n"
            "    if (--round->missing > 0) return absl::OkStatus();\n",
            "    if (--round->missing > 0) return absl::OkStatus();\n"
            "    MutexLock lock(rounds_mutex_);\n",
        ),
        (
            "replicas_test",
            "collectives_of_an_ipu_without_the_lock",
            "replicas/replicas.cc",
            "std::uint64_t part) {\n  MutexLock lock(mutex_);\n",
            "std::uint64_t part) {\n",
        ),
        (
            "replicas_test",
            "replicas_that_left_without_the_lock",
            "replicas/replicas.cc",
            "replica));\n  MutexLock lock(mutex_);\n  gone_",
            "replica));\n  gone_",
        ),
        (
            "program_test",
            "set_of_programs_without_the_lock",
            "run/program.cc",
            "    MutexLock lock(running.mutex);\n    running.programs.erase(this);",
            "    running.programs.erase(this);",
        ),
        (
            "program_test",
            "step_clock_without_the_lock",
            "run/program.cc",
            "MutexLock lock(mutex_);\n  return clock_of(current.ipu);",
            "return clock_of(current.ipu);",
        ),
        (
            "program_test",
            "stop_without_the_lock",
            "run/program.cc",
            "(absl::Status why) {\n  MutexLock lock(mutex_);\n",
            "(absl::Status why) {\n",
        ),
        (
            "program_test",
            "end_of_detached_work_without_the_lock",
            "run/detached_work.cc",
            "(absl::Status with) {\n    MutexLock lock(mutex);\n",
            "(absl::Status with) {\n",
        ),
    ),
)
def test_each_lock_above_the_feed_is_guarded(run):
    """A lock that is dropped is a data race: seen."""
    assert run.returncode == 66, run.stdout + run.stderr
    assert "WARNING: ThreadSanitizer: data race" in run.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    "build",
    mutants(
        DELAYS,
        (
            "infeed_test",
            "end_of_the_dataset_by_the_own_ring",
            "feeds/infeed.cc",
            "feeder_->ended())",
            "feed.state() == FeedState::kEnded)",
        ),
        (
            "infeed_test",
            "rounds_of_a_stopped_program_not_level",
            "feeds/infeed.cc",
            "while (round <= first_round_);",
            "while (false);",
        ),
        (
            "outfeed_test",
            "full_ring_stopped_at_the_end_of_the_dataset",
            "feeds/outfeed.cc",
            "if (aborted()) return stopped_while",
            "return stopped_while",
        ),
        (
            "outfeed_test",
            "half_rounds_of_a_stopped_program_kept",
            "feeds/outfeed.cc",
            "    rounds_.clear();",
            "",
        ),
    ),
)
def test_no_element_is_lost_or_doubled(run):
    """What loses, doubles or mixes elements is seen: by a check or the C++ library's."""
    assert run.returncode in (1, -signal.SIGABRT), run.stdout + run.stderr
    assert "FAILED in " in run.stderr or "Assertion" in run.stderr


@pytest.mark.soak
@pytest.mark.parametrize(
    "build",
    mutants(
        ADDRESS,
        (
            "program_test",
            "cancellation_calls_what_has_gone",
            "run/program.cc",
            "if (!cancellation_.watch(manager_, on_cancel)) on_cancel();",
            "if (manager_ != nullptr) {\n"
            "  const auto token = manager_->get_cancellation_token();\n"
            "  if (!manager_->RegisterCallback(token, on_cancel)) on_cancel();\n"
            "}",
        ),
        (
            "pipeline_run_test",
            "packet_freed_twice",
            "pipeline/pipeline.cc",
            "give(std::move(bytes_));\n    bytes_ =",
            "give(SpareMemory::Bytes(bytes_.get()));\n    bytes_ =",
        ),
    ),
)
def test_each_end_of_a_life_is_guarded(run):
    """What is used or freed after its end is seen."""
    assert run.returncode not in (0, 66), run.stdout + run.stderr
    assert "AddressSanitizer" in run.stderr
