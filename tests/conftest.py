"""What all tests share.

ipufeed comes first: TensorFlow lists its devices at its first op, and the library has to
be there by then. A crash or a hang says where it happened: faulthandler for crashes,
pytest-timeout (see pyproject.toml) for hangs, and the watchdog below for a hang that keeps
the GIL, since pytest-timeout's thread could then print nothing.
"""

import contextlib
import ctypes
import faulthandler
import gc
import os
import signal

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

import ipufeed as ipufeed  # before what the tests need of it
from ipufeed import _native
from ipufeed.process_state import STATE

import seeds  # isort: skip
import styles  # isort: skip

# What `nox -s sanitize` and `nox -s bench` run, in .ci/run.
PUT_ASIDE = ("soak", "measured")
# Files that take longest come first, so that the processes end together.
FIRST = (
    "test_several_processes.py",
    "test_command_files.py",
    "test_command.py",
    "test_command_interrupts.py",
    "test_command_datasets.py",
    "test_command_results.py",
    "test_service.py",
    "test_memory.py",
    "test_legacy_keras.py",
    "test_cc.py",
    "test_pipeline_faults.py",
    "test_pipeline.py",
    "test_count_tensors.py",
    "test_fit.py",
    "test_keras_pipeline.py",
    "test_through_steps.py",
    "test_programs.py",
    "test_pipeline_data.py",
    "test_seeds.py",
    "test_order.py",
    "test_pipeline_replicas.py",
    "test_executables.py",
    "test_executable_processes.py",
    "test_embedded_runtime.py",
    "test_pipeline_order.py",
    "test_captured.py",
    "test_replicas_that_end.py",
    "test_loops.py",
    "test_everywhere.py",
    "test_keras_images.py",
    "test_replication.py",
    "test_keras_options.py",
    "test_synthetic.py",
    "test_program_models.py",
    "test_fuzz.py",
    "test_signals.py",
    "test_offloading.py",
    "test_outfeed_owns.py",
    "test_accumulation.py",
    "test_measurement.py",
    "test_pytest_plugin.py",
    "test_pipeline_seeds.py",
    "test_random_programs.py",
    "test_feeder.py",
    "test_feeder_ends.py",
    "test_seeds_of_programs.py",
    "test_serving.py",
    "test_precompiling.py",
    "test_keras_optimizers.py",
    "test_examples.py",
    "test_exceptions.py",
    "test_stopping.py",
    "test_timeline.py",
    "test_models.py",
    "test_processes.py",
    "test_outlive.py",
    "test_pipeline_cache.py",
    "test_ends.py",
    "test_through_device.py",
    "test_keras_saving.py",
    "test_compilation_programs.py",
    "test_sequences.py",
    "test_ci_docs.py",
    "test_compare_command.py",
    "test_build.py",
    "test_run.py",
    "test_infeed.py",
    "test_comparison.py",
    "test_measure_loader.py",
    "test_large_elements.py",
    "test_report_command.py",
)
WATCHDOG_S = 1300.0  # beyond any test's own limit, which would report more

COLLECT_AFTER = (10_000, 20, 50)

# What TensorFlow calls the gradients that it registers while it traces.
TRACED_GRADIENTS = ("CustomGradient-", "PartitionedCall-")

# Fault of ipufeed/cc/base/faults.h.
NO_FAULT, BAD_ALLOC = 0, 2

_stderr = pytest.StashKey[int]()


def pytest_report_header():
    return f"{seeds.NAME}={seeds.choose()}"


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"Random choices: {seeds.NAME}={seeds.choose()}")


def pytest_configure(config):
    seeds.choose()  # before pytest-xdist starts its workers
    # A shell ignores Ctrl-C for what it starts in the background, and children inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_stderr] = os.dup(2)  # the true one: pytest captures later


def pytest_collection_modifyitems(config, items):
    """Leaves out what is marked `soak` or `measured`, unless -m names the marker.

    What is left is put in the order of FIRST.
    """
    unasked = [each for each in PUT_ASIDE if each not in config.option.markexpr]
    aside = {item for item in items if any(map(item.get_closest_marker, unasked))}
    if aside:
        config.hook.pytest_deselected(items=list(aside))
        items[:] = [item for item in items if item not in aside]
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(FIRST)))


def pytest_collection_finish():
    """Leaves what is there now out of collections of garbage: 0.25 s of CPU each.

    Tracing a program makes many objects that stay: with Python's own thresholds a fifth
    of its time is spent on collections that find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


@pytest.fixture(autouse=True)
def watchdog(pytestconfig):
    faulthandler.dump_traceback_later(
        WATCHDOG_S, exit=True, file=pytestconfig.stash[_stderr]
    )
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module", autouse=True)
def no_state_is_left():
    """The next file of the same process finds what a new process has.

    No configuration, and no programs: together they would take 256 MiB. TensorFlow
    would keep the generators of datasets with its default graph, zeros of any size, and
    with each gradient that it has registered the model that it is of, graphs included.
    """
    yield
    STATE.reset()
    registered = ops.gradient_registry._registry
    for name in [each for each in registered if each.startswith(TRACED_GRADIENTS)]:
        del registered[name]
    tf.compat.v1.reset_default_graph()
    context.context().zeros_cache().flush()
    gc.collect()
    gc.freeze()  # what modules have imported meanwhile
    ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def clean_system(monkeypatch):
    """A process that has configured nothing and read no flags, before and after."""

    def forget():
        STATE.reset("system", "flags")

    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    forget()
    yield
    forget()


@pytest.fixture
def flags(clean_system, monkeypatch):
    """Sets TF_POPLAR_FLAGS as a program's user does, before they are first read."""

    def use(text):
        monkeypatch.setenv("TF_POPLAR_FLAGS", text)
        STATE.reset("flags")

    return use


@pytest.fixture(params=styles.CASES, ids=", ".join)
def style(request):
    """Each style of writing a program, in each mode of running it. See styles.py."""
    with styles.entered(*request.param) as entered:
        yield entered


@pytest.fixture
def fault():
    """Lets the n-th place of a name fail, see ipufeed/cc/base/faults.h; none afterwards."""

    @contextlib.contextmanager
    def failing(where, nth=1, kind=BAD_ALLOC):
        _native.entry().ipufeed_set_fault(where.encode(), nth, kind)
        try:
            yield
        finally:
            _native.entry().ipufeed_set_fault(b"", 0, NO_FAULT)

    return failing
