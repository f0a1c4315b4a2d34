"""The choice and the order of tests; what tests themselves share is in support/shared.py.

The process that hands out files to the workers runs no test: it imports no TensorFlow.
"""

import gc
import os
import signal
import sys

import parts
import seeds

# Images of containers set this. Each worker would then compile 250 test files, and each of
# some hundred children the package: 0.1 s of CPU each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What `nox -s soak`, `nox -s bench` and `nox -s long` run, in .ci/run: the first of an
# item's markers decides.
PUT_ASIDE = ("soak", "measured", "long")
# XLA compiles the tests' programs, each of which runs a few times, without MLIR for their
# fusions, as one module of LLVM instead of up to 32 for several CPUs, and without LLVM's
# optimisations. An XLA_FLAGS of the caller, also an empty one, is left as it is. `.ci/run`
# runs four files with the code that users get; what is marked `soak` or `measured` has
# it, too.
XLA_FLAGS = " ".join(
    (
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
        "--xla_backend_optimization_level=0",
    )
)
# Files that mostly wait, for other processes, deadlines or delays: one at a time, while the
# other two workers compute. Longest first, here and below.
WAITING = (
    "test_cc.py",
    "test_several_processes.py",
    "test_service.py",
    "test_through_steps.py",
    "test_memory.py",
    "test_pytest_plugin.py",
    "test_synthetic.py",
    "test_replicas_that_end.py",
    "test_pipeline_faults.py",
    "test_advice_on_workers.py",
    "test_command_interrupts.py",
    "test_stages.py",
    "test_feeder_ends.py",
    "test_outlive.py",
    "test_stopping.py",
    "test_measurement.py",
)
# Files that take most CPU: before the others, so that the workers end together.
LONG = (
    "test_programs.py",
    "test_guides.py",
    "test_legacy_keras.py",
    "test_popdist_strategy.py",
    "test_fuzz.py",
    "test_keras_images.py",
    "test_large_elements.py",
    "test_fit.py",
    "test_examples.py",
    "test_command_results.py",
    "test_program_models.py",
    "test_order.py",
    "test_ends.py",
    "test_executable_processes.py",
    "test_pipeline.py",
    "test_legacy_encodings.py",
    "test_count_tensors.py",
    "test_tensorflow_assumptions.py",
    "test_keras_pipeline.py",
    "test_signals.py",
    "test_compare_command.py",
    "test_loops.py",
    "test_everywhere.py",
    "test_tensor_memory.py",
    "test_keras_optimizers.py",
    "test_seeds.py",
    "test_keras_options.py",
    "test_run.py",
    "test_pipeline_data.py",
    "test_processes.py",
    "test_replication.py",
    "test_sequences.py",
    "test_scaling.py",
    "test_gradient_capture.py",
    "test_pipeline_replicas.py",
    "test_offloading.py",
    "test_pipeline_cache.py",
    "test_samplers.py",
    "test_asserts.py",
    "test_public_imports.py",
    "test_silence.py",
    "test_generators.py",
    "test_through_device.py",
    "test_ci_docs.py",
    "test_coverage.py",
    "test_compilation_programs.py",
    "test_loader_command.py",
    "test_pipeline_order.py",
    "test_exceptions.py",
    "test_accumulation.py",
    "test_plain_loops.py",
    "test_pipeline_seeds.py",
    "test_command_files.py",
    "test_build.py",
    "test_random_programs.py",
    "test_older_models.py",
    "test_keras_saving.py",
    "test_legacy_strategies.py",
)


def pytest_addoption(parser):
    parser.addoption(
        "--part",
        type=parts.parse,
        default=(0, 1),
        metavar="K/N",
        help="run the K-th of N parts of the selected tests, from 0: see support/parts.py",
    )


def pytest_report_header():
    return f"{seeds.NAME}={seeds.choose()}"


def pytest_terminal_summary(terminalreporter):
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"Random choices: {seeds.NAME}={seeds.choose()}")


def pytest_configure(config):
    seeds.choose()  # before pytest-xdist starts its workers
    # A shell ignores Ctrl-C for what it starts in the background, and children inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not any(each in config.option.markexpr for each in ("soak", "measured")):
        os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)  # children inherit it
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        return  # this process starts the workers
    gc.disable()  # until the collection has finished, see shared.py
    import shared

    config.pluginmanager.register(shared, "ipufeed-tests-shared")


def is_put_aside(item, expression):
    """Whether a test is of PUT_ASIDE, and -m does not name the marker."""
    markers = filter(item.get_closest_marker, PUT_ASIDE)
    return next(markers, expression) not in expression


def pytest_collection_modifyitems(config, items):
    """Leaves out what is PUT_ASIDE; what is left begins with WAITING and LONG."""
    expression = config.option.markexpr
    selected = [item for item in items if not is_put_aside(item, expression)]
    selected = parts.within(selected, *config.getoption("part"))
    if len(selected) < len(items):
        wanted = set(selected)
        config.hook.pytest_deselected(items=[i for i in items if i not in wanted])
        items[:] = selected
    # Two of LONG for each of WAITING: there are three workers.
    places = {name: 2 * place for place, name in enumerate(LONG)}
    places |= {name: 4 * place - 1 for place, name in enumerate(WAITING)}
    items.sort(key=lambda item: places.get(item.path.name, 2 * len(LONG)))
