"""The programs in examples/ipu run as their README says, and print what they promise.

examples/ipu/*/*.py --python -m ipufeed.run--> stdout: numbers, orders, counts

They are written as users of the original system write them, and know nothing of ipufeed,
but for its counters of compilations (see test_compilation_programs.py).
All of them run before the first test, two at a time, since each starts TensorFlow.
"""

import concurrent.futures
import itertools
import re

import pytest
from example_programs import FILES, execute

pytestmark = pytest.mark.long

NAMES = sorted(FILES)
# They start processes of their own, each of which imports TensorFlow: marked `soak`.
SLOW = ("several_processes", "synthetic_data")
EACH = [
    pytest.param(name, marks=pytest.mark.soak if name in SLOW else ()) for name in NAMES
]
# Those that log several IPUs, or none.
OTHER_IPUS = (
    *("sharded_graph", "pipelined_training", "replicated_training", "keras_text"),
    *("several_processes", "dataset_benchmark", "precompile"),
)
STEP_LINE = re.compile(r"step (\d+): loss (\S+)")


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """Each program's finished process: of the slow ones, or of the others."""
    top = tmp_path_factory.mktemp("programs")
    slow = "soak" in request.config.option.markexpr
    names = [name for name in NAMES if (name in SLOW) == slow]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda name: execute(name, top / name), names)
        return dict(zip(names, done, strict=True))


@pytest.fixture
def lines(runs):
    """The lines that a program printed, by its name."""
    return lambda name: runs[name].stdout.splitlines()


def falls(losses):
    return all(later < earlier for earlier, later in itertools.pairwise(losses))


@pytest.mark.process
@pytest.mark.parametrize("name", EACH)
def test_a_program_runs_to_its_end(runs, name):
    """Exit code 0, something printed, and no traceback on the way, of no thread."""
    assert runs[name].returncode == 0, runs[name].stderr
    assert runs[name].stdout
    assert "Traceback" not in runs[name].stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "result"),
    {
        "basic_graph": "[3. 8.]",
        "compiled_graph": "[array([3., 8.], dtype=float32)]",
        "sharded_graph": "[array([ 4., 14.], dtype=float32)]",
    }.items(),
)
def test_sums_are_exact(lines, name, result):
    """The three graphs print their sum, as an array or in compile's list."""
    assert lines(name) == [result]


@pytest.mark.process
@pytest.mark.parametrize(
    "name", [each for each in EACH if each.values[0] not in OTHER_IPUS]
)
def test_a_program_logs_its_ipu(runs, name):
    """A program that configures one IPU logs that it was attached to one."""
    assert re.search(
        r"device /device:IPU:0 attached to 1 IPU with Poplar device ID: \d+$",
        runs[name].stderr,
        re.MULTILINE,
    )


@pytest.mark.process
def test_keras_networks_learn_to_see_faces(runs, lines):
    """Both nearly all of them; the log says how long the device waited for data."""
    found = [
        re.fullmatch(r"(\w+): \d+ weights, loss (\S+) to (\S+), (\d+) of 40 .*", line)
        for line in lines("keras_faces")
    ]

    assert [each[1] for each in found] == ["mlp", "convolutional"]
    assert all(float(each[3]) < float(each[2]) / 2 for each in found)
    assert all(int(each[4]) >= 36 for each in found)
    assert runs["keras_faces"].stderr.count("the device waited for data") == 16


@pytest.mark.process
def test_a_keras_pipeline_learns_letters(lines):
    """Its layers are in the stages that they were made in."""
    *stages, last = lines("keras_text")

    assert stages[:2] == ["embedding: stage 0", "attention: stage 0"]
    assert set(stages[2:]) == {
        f"{name}: stage 1" for name in ("norm", "skip", "hidden", "dropout", "letters")
    }
    first, final = re.fullmatch(r"loss (\S+) to (\S+)", last).groups()
    assert float(final) < 3.0 < float(first)


@pytest.mark.process
def test_a_sharded_program_logs_its_four_ipus(runs):
    """The attach line names the multi-IPU device and its members."""
    found = re.search(
        r"attached to 4 IPUs with Poplar device IDs: (\d+),(\d+),(\d+),(\d+) "
        r"\(multi-IPU ID (\d+)\)",
        runs["sharded_graph"].stderr,
    )

    assert found, runs["sharded_graph"].stderr
    assert len(set(found.groups())) == 5


@pytest.mark.process
def test_replicas_train_to_the_weights_of_one(runs, lines):
    """On 1, 2 and 4 IPUs, with an axis of the losses; the log says how many there are."""
    found = [
        re.fullmatch(
            r"(\d) replicas: losses \(40,(?: (\d)\))?.*, (\S+) to (\S+?)"
            r"(?:, weights differ by less than 1e-5)?",
            line,
        )
        for line in lines("replicated_training")
    ]

    assert [each[1] for each in found] == ["1", "2", "4"]
    assert [each[2] for each in found] == [None, "2", "4"]
    assert len({each[3] for each in found}) == 1
    assert all(float(each[4]) < float(each[3]) / 2 for each in found)
    # The variables' initialisation is a program, too.
    factors = re.findall("by a factor of (.)", runs["replicated_training"].stderr)
    assert list(dict.fromkeys(factors)) == ["2", "4"]


@pytest.mark.soak
@pytest.mark.process
def test_two_processes_train_to_the_weights_of_one(lines):
    """Each on two IPUs, as one does on four; the losses are of their own data."""
    *found, last = lines("several_processes")
    form = r"(?:process (\d) of 2|one process): losses \(40, (\d)\), (\S+) to (\S+)"
    found = [re.fullmatch(form, line) for line in found]

    assert [each[1] for each in found] == ["0", "1", None]
    assert [each[2] for each in found] == ["2", "2", "4"]
    assert all(float(each[4]) < float(each[3]) / 2 for each in found)
    assert last == "weights differ by less than 1e-5"


@pytest.mark.process
def test_sessions_log_train_and_evaluate(lines):
    """The hook logs after runs 1, 3 and 5, and all at the end; the estimator learns."""
    hook = ["events 0", "lines 4", "losses of all steps 24", "processes 1"]
    trained, learned, predicted = lines("estimator")
    assert lines("logging_hook") == hook
    assert (trained, learned[-4:]) == ("trained for 500 steps", "True")
    assert predicted.startswith("first point: class ")


@pytest.mark.process
@pytest.mark.parametrize("name", ["training_loop_v1", "training_loop_v2"])
def test_a_loop_gives_a_dict_with_all_its_steps(lines, name):
    """Ten steps of 800 floats for each key: sums of 2 and differences of 0."""
    assert lines(name)[-2:] == ["d1 (10, 800) 2.0", "d2 (10, 800) 0.0"]


@pytest.mark.process
def test_a_loop_of_tensorflow_2_counts_its_steps(lines):
    """What the function returns besides comes back from the strategy's run."""
    assert lines("training_loop_v2")[0] == "steps 10"


@pytest.mark.process
def test_results_are_read_while_the_program_runs(lines):
    """200 lines of two runs, in order, none lost, the first before the end."""
    *steps, last = lines("continuous_dequeue")

    assert steps == [f"step {i}: {i}.0" for i in range(200)]
    assert last == "200 steps, the first of them before the program had ended"


@pytest.mark.process
def test_a_custom_training_loop_prints_a_falling_loss(lines):
    """A line for each step, in order; the loss falls over each pass of four batches."""
    *steps, last = lines("custom_training_loop")
    numbers, losses = zip(
        *(STEP_LINE.fullmatch(line).groups() for line in steps), strict=True
    )
    losses = [float(loss) for loss in losses]
    passes = [sum(losses[i : i + 4]) for i in range(0, 40, 4)]

    assert [int(number) for number in numbers] == list(range(100))
    assert falls(passes)
    assert losses[-1] < 1e-6
    assert last == "slope 3.00, offset -1.00"


@pytest.mark.process
def test_a_loop_learns_from_a_loader(lines):
    """Numbers of 64 bits are fed in 32."""
    types, last = lines("loader")
    first, final = re.fullmatch(r"loss (\S+) to (\S+)", last).groups()

    assert types == "picture float32 (32, 16), label int32 (32,)"
    assert float(final) < float(first) / 4


@pytest.mark.process
def test_the_mean_of_each_chunk_is_below_the_last(lines):
    """A hundred chunks of exactly ten losses, and the mean falls a hundred times."""
    form = re.compile(r"chunk (\d+): loss (\S+), 10 steps")
    chunks = [form.fullmatch(line).groups() for line in lines("chunks")]

    assert [int(number) for number, _ in chunks] == list(range(100))
    assert falls([float(loss) for _, loss in chunks])


@pytest.mark.process
def test_a_pipeline_trains_equally_with_each_schedule(lines):
    """A line for each, with the same losses, and the second below the first."""
    found = [line.split(" ", 1) for line in lines("pipelined_training")]

    assert [name for name, _ in found] == ["Grouped", "Interleaved", "Sequential"]
    assert len({rest for _, rest in found}) == 1
    first, last = re.fullmatch(r"loss (\S+) -> (\S+)", found[0][1]).groups()
    assert float(last) < 0.7 * float(first)


@pytest.mark.process
def test_a_global_step_on_the_cpu_costs_no_switch(lines):
    """None for each call; on the IPU the counter goes in, and the training in again."""
    form = re.compile(
        r"counted on (CPU|IPU): global step (\d+), loss (\S+), (\d+) switches"
    )
    calls = [form.fullmatch(line).groups() for line in lines("global_step")]

    assert [device for device, *_ in calls] == ["CPU"] * 5 + ["IPU"] * 5
    assert [int(step) for _, step, _, _ in calls] == [20, 30, 40, 50, 60] * 2
    assert [int(switches) for *_, switches in calls] == [0] * 5 + [2] * 5
    for part in (calls[:5], calls[5:]):
        assert falls([float(loss) for _, _, loss, _ in part])


@pytest.mark.process
def test_each_baked_in_value_and_each_batch_size_is_compiled(lines):
    """Equal values are compiled once; three changed ones three times."""
    assert lines("recompilation") == [
        "equal values: 1 compiled, 0 read, 1 loaded",
        "changed constants: 3 compiled, 0 read, 3 loaded",
        "changed weights: 3 compiled, 0 read, 3 loaded",
        "changed batch sizes: 3 compiled, 0 read, 3 loaded",
    ]


@pytest.mark.process
def test_a_function_is_compiled_for_each_number_and_once_for_tensors(lines):
    """Three Python numbers are three programs, three tf.constant one."""
    assert lines("recompilation_v2") == [
        "Python numbers: 3 compiled",
        "tf.constant: 1 compiled",
        "three batch sizes: 3 compiled",
        "padded batches: 1 compiled",
    ]


@pytest.mark.process
def test_a_dataset_is_measured_in_a_session_and_eagerly(lines):
    """Both ways give ten epochs of 512 elements with the five fields, and a rate."""
    printed = lines("dataset_benchmark")

    for name, first in (("session", 0), ("eager", 3)):
        assert printed[first] == f"{name}: 10 epochs of 512 elements, 2097152 bytes"
        assert printed[first + 1] == (
            "fields: bandwidth elements_per_second elements_processed time_elapsed "
            "total_bytes_processed"
        )
        rate = re.fullmatch(r"median (\d+) elements/s", printed[first + 2])
        assert int(rate[1]) > 0
    assert len(printed) == 6


@pytest.mark.process
@pytest.mark.soak
def test_synthetic_data_locate_the_bottleneck(lines):
    """Three rates; a dataset that sleeps is found to be what holds the program back."""
    *rates, last = lines("synthetic_data")
    found = [re.fullmatch(r"(.+): (\d+) steps/s", line).groups() for line in rates]

    assert [case for case, _ in found] == ["host data", "host-generated", "synthetic"]
    assert all(int(rate) > 0 for _, rate in found)
    assert last == "bottleneck: the dataset"


@pytest.mark.process
def test_a_latency_is_measured_for_each_result(lines):
    """500 results, and figures that two clocks of one process can give."""
    (line,) = lines("latency")
    form = r"500 results, latency mean (\d+) us, p99 (\d+) us"
    mean, p99 = map(int, re.fullmatch(form, line).groups())

    assert mean > 0
    assert p99 > 0


@pytest.mark.process
def test_a_stream_gives_each_result_once_and_ends(lines):
    """Twenty dicts in order, and then the end of the program ends the loop."""
    *results, last = lines("stream")

    assert results == [
        str({"step": step, "square": float(step**2)}) for step in range(20)
    ]
    assert last == "20 results"


@pytest.mark.process
def test_a_dataset_of_twice_the_step_keeps_half_of_the_device_busy(lines):
    """At most half, whatever the machine does: no sleep is shorter than its duration."""
    first, second = lines("step_time")
    au, starved = map(
        int, re.fullmatch(r"utilisation (\d+)%, starved (\d+)%", second).groups()
    )

    assert first == "200 steps of 4 ms"
    assert 0 < au <= 51
    assert starved > 0
    assert au + starved <= 101


@pytest.mark.process
def test_training_and_validation_alternate(lines):
    """Twenty losses for each call, at its own rate; the loss falls, the count is high."""
    form = re.compile(
        r"epoch (\d): rate (\S+), 20 losses, mean (\S+), (\d+) of 128 right"
    )
    epochs, rates, means, right = zip(
        *(form.fullmatch(line).groups() for line in lines("train_and_validate")),
        strict=True,
    )

    assert epochs == ("0", "1", "2")
    assert rates == ("0.100", "0.050", "0.025")
    assert falls([float(mean) for mean in means])
    assert all(int(count) > 100 for count in right)


@pytest.mark.process
def test_a_keras_model_learns_from_two_queues(lines):
    """Four calls of 25 steps; the loss falls from each to the next."""
    *calls, last = lines("keras_model")
    form = re.compile(r"25 losses, mean (\S+)")

    assert len(calls) == 4
    assert falls([float(form.fullmatch(line)[1]) for line in calls])
    assert last == "100 steps"


@pytest.mark.process
def test_loops_nest_and_end_by_a_condition(lines):
    """The loops take their elements alternately, and what they do not take is left."""
    assert lines("nested_loops") == [
        "1 * (1 + 2 + 3 + 4) = 10",
        "2 * (5 + 6 + 7 + 8) = 52",
        "3 * (9 + 10 + 11 + 12) = 126",
        "13 + 14 + 15 + 16 + 17 + 18 + 19 = 112",
        "the next element is 20",
    ]


def test_a_program_in_a_file_is_called_in_another_process(lines):
    """What was learnt is in the file."""
    assert lines("application") == [
        "compiled to line.poplar_exec",
        "takes float32 [1]",
        *(f"f({x}) = {3 * x + 1:.1f}" for x in range(5)),
    ]


@pytest.mark.process
def test_each_run_of_a_graph_is_a_program_once(lines):
    """Initialise, train twice, evaluate, train: what compiles; the loss falls."""
    *runs, last = lines("whole_graph")
    assert [run.split()[1] for run in runs] == ["1", "1", "0", "1", "0"]
    before, after = last.split()[1::2]
    assert float(after) < float(before)
