"""The raw operations that programs import, in both styles."""

import numpy as np
import pytest
import tensorflow as tf
from replicated import on
from styles import only

from ipufeed import compat, no_effect
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.program import compiler
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.system import system
from ipufeed.executable.store.counters import reset_stats, stats
from ipufeed.programs import event_traces

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1

compat.install()
from tensorflow.compiler.plugin.poplar.ops import (  # noqa: E402
    gen_ipu_ops,
    gen_pop_datastream_ops,
    gen_poputil_ops,
)

STYLES = ["graph", "function"]


@pytest.mark.parametrize("style", STYLES)
def test_programs_are_forgotten(style):
    """The next run compiles; where there are none nothing happens."""

    def forget():
        if style == "function":
            gen_ipu_ops.ipu_clear_all_xla_compilation_caches()
        else:
            ready.session.run(gen_ipu_ops.ipu_clear_all_xla_compilation_caches())

    with on(1, style) as ready:
        forget()
        run = ready.build(lambda x: x * 3.4375, 1.0)
        run(1.0)
        reset_stats()
        run(1.0)
        assert stats().compiles == 0
        forget()
        assert only(run(1.0)) == 3.4375
        assert stats().compiles == 1


def test_the_system_is_asked_by_operations():
    """In a graph and in eager mode."""
    config = IPUConfig()
    config.auto_select_ipus = [1, 2]
    gen_ipu_ops.ipu_configure_hardware(config)

    assert gen_ipu_ops.ipu_event_trace().shape == [0]
    assert len(gen_ipu_ops.ipu_get_configuration()) == 2
    assert int(gen_ipu_ops.ipu_get_num_devices("/device:IPU:1")) == 2
    assert not bool(gen_ipu_ops.ipu_model_used())
    assert gen_ipu_ops.ipu_use_synthetic_data_for(1).numpy().tolist() == [False]
    with tf.Graph().as_default(), v1.Session() as session:
        assert session.run(gen_ipu_ops.ipu_event_trace()).tolist() == []
        session.run(gen_ipu_ops.ipu_reset_seed("/device:IPU:0", 3))
        session.run(gen_ipu_ops.ipu_reset_devices())
    with pytest.raises(RuntimeError, match="No IPU devices configured"):
        gen_ipu_ops.ipu_get_configuration()


def test_a_configuration_goes_through_bytes():
    """Serialised by one operation and taken by another, and parsed under its own name."""
    from tensorflow.compiler.plugin.poplar.driver import config_pb2

    config = IPUConfig()
    config.auto_select_ipus = [1, 2]
    gen_ipu_ops.ipu_configure_hardware(config)
    with tf.Graph().as_default(), v1.Session() as session:
        asked = gen_ipu_ops.ipu_get_configuration()
        count = gen_ipu_ops.ipu_get_num_devices("/device:IPU:1")
        texts = session.run(asked)
        reset = gen_ipu_ops.ipu_reset_devices()
        session.run(reset)
        session.run(gen_ipu_ops.ipu_configure_hardware(texts[0]))
        assert session.run(count) == 2  # of the system that there is when it runs
        assert session.run(asked).tolist() == texts.tolist()
    message = config_pb2.IpuOptions()
    message.ParseFromString(texts[1])

    assert [each.auto_count for each in message.device_config] == [1, 2]
    assert message == system.get_ipu_config()[0]
    with pytest.raises(ValueError, match="must be a serialised IpuOptions message"):
        gen_ipu_ops.ipu_configure_hardware(b"\xff\xff")
    with pytest.raises(AttributeError, match="It has: IpuOptions"):
        config_pb2.IpuTraceEvent  # noqa: B018


def test_a_report_operation_is_a_program_of_its_own():
    """As the original's tutorials make it on the CPU, next to a compiled program."""
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.device("cpu"):
            report = gen_ipu_ops.ipu_event_trace()
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(lambda x: x + 1, [tf.constant(1.0)])
        assert session.run(program) == [2.0]
        assert session.run(report).size == 0


def test_reports_are_extracted_from_a_trace_without_events(caplog):
    """As programs for old releases do when they end: with one warning, of the remedy."""
    from tensorflow.python.ipu import summary_ops, utils

    no_effect.forget()
    with tf.Graph().as_default(), v1.Session() as session:
        with ipu_scope("/device:IPU:0"):
            program = compiler.compile(lambda x: x + 1, [tf.constant(1.0)])
        with tf.device("cpu"):
            trace = gen_ipu_ops.ipu_event_trace()
        with pytest.raises(TypeError, match="`name` must be a str, got int 3"):
            summary_ops.ipu_compile_summary(3, program)
        summary_ops.ipu_compile_summary("reports", program)
        merged = v1.summary.merge_all()
        _, events, summary = session.run([program, trace, merged])
        assert session.run(summary_ops.get_ipu_reports()).size == 0
    assert v1.Summary.FromString(summary).value[0].tag == "reports"
    assert utils.extract_all_strings_from_event_trace(events) == ""
    lists = (
        "all_events",
        "all_io_events",
        "all_types_from_event_trace",
        "compile_reports",
    )
    for what in (
        *lists,
        "execute_reports",
        "graph_reports",
        "poplar_serialized_graphs",
    ):
        assert getattr(utils, f"extract_{what}")(events) == []
    assert caplog.text.count("it has no events") == 1
    with pytest.raises(
        ValueError, match="which has no elements on a simulated IPU, got"
    ):
        utils.extract_compile_reports([b"event"])


def test_reports_are_of_a_value_and_not_of_a_tensor():
    """A program that has not run `ipu_event_trace()` gets an error with the remedy."""
    with tf.Graph().as_default():
        trace = gen_ipu_ops.ipu_event_trace()
        for events in (trace, None, 3):
            with pytest.raises(TypeError, match=r"as Session.run returns it, got \w+"):
                event_traces.extract_all_events(events)


@pytest.mark.parametrize(
    ("types", "shapes", "error", "message"),
    [
        (
            [tf.int32],
            [[]],
            ValueError,
            r"`output_types` must be .*\[float32\], got \[int",
        ),
        ([tf.float32], [[2]], ValueError, r"`output_shapes` must be .*got \[\(2,\)\]"),
        ([tf.float32] * 2, [[]] * 2, ValueError, "`output_types` must be those of"),
        (tf.float32, [[]], TypeError, "`output_types` must be a list, with one for"),
    ],
)
def test_an_infeed_has_the_components_that_its_operations_name(
    types, shapes, error, message
):
    """Else a program would get floats where it has written ints."""
    dataset = tf.data.Dataset.from_tensors(1.0)
    with pytest.raises(error, match=message):
        gen_pop_datastream_ops.ipu_create_dataset_iterator(dataset, "a", types, shapes)
    gen_pop_datastream_ops.ipu_create_dataset_iterator(dataset, "a", [tf.float32], [[]])
    with pytest.raises(error, match=message):
        gen_pop_datastream_ops.pop_datastream_infeed_dequeue("a", types, shapes)
    with pytest.raises(TypeError, match="`feed_id` must be a str, got int 3"):
        gen_pop_datastream_ops.ipu_delete_dataset_iterator(3)


def test_wrong_arguments_of_the_raw_operations_are_named():
    """With what they must be."""
    for count, error in ((0, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="`num_mini_batches` must be"):
            gen_poputil_ops.ipu_stateful_gradient_accumulate(tf.ones([2]), count)
    with pytest.raises(
        TypeError, match="`inputs` must be a list of tensors, got Eager"
    ):
        gen_poputil_ops.ipu_barrier(tf.ones([2]))


@pytest.mark.parametrize("mode", ["all", "get_last"])
@pytest.mark.parametrize("style", STYLES)
def test_queues_are_known_by_their_ids(style, mode):
    """A dataset goes in under one id, results come out under another."""
    name = f"{style} {mode}"
    types, shapes = [tf.float32], [[]]
    with on(1, style) as ready:
        dataset = tf.data.Dataset.from_tensor_slices(np.float32([1, 2, 3]))
        begin = gen_pop_datastream_ops.ipu_create_dataset_iterator(
            dataset, f"in {name}", types, shapes
        )

        def body(total):
            (x,) = gen_pop_datastream_ops.pop_datastream_infeed_dequeue(
                f"in {name}", types, shapes
            )
            done = gen_pop_datastream_ops.pop_datastream_outfeed_enqueue(
                [x * 2], shapes, f"out {name}", outfeed_mode=mode
            )
            return total + x, done

        if style == "graph":
            ready.session.run(begin)
        total = ready.run(lambda x: ready.repeat(3, body, [x]), 0.0)
        (found,) = ready.read(
            gen_pop_datastream_ops.pop_datastream_outfeed_dequeue(
                types, shapes, f"out {name}", outfeed_mode=mode
            )
        )
        gone = [
            gen_pop_datastream_ops.ipu_delete_outfeed(f"out {name}"),
            gen_pop_datastream_ops.ipu_delete_dataset_iterator(f"in {name}"),
        ]
        if style == "graph":
            ready.session.run(gone)

    assert only(total) == 6.0
    assert found.tolist() == ([2.0, 4.0, 6.0] if mode == "all" else 6.0)


def test_what_the_raw_queues_ignore_is_warned_of(clean_system, caplog):
    """Once for each option; a name that no raw operation has is refused."""
    no_effect.forget()
    dataset = tf.data.Dataset.from_tensors(np.float32(1))
    ops = gen_pop_datastream_ops
    named = "warns", [tf.float32], [[]]
    with ipu_scope("/device:IPU:0"):
        ops.ipu_create_dataset_iterator(
            dataset,
            *named,
            prefetch_depth=3,
            optimise_latency=True,
        )
        for depth in (1, 3):
            with tf.Graph().as_default():
                ops.pop_datastream_infeed_dequeue(*named, prefetch_depth=depth)
        assert caplog.text.count("has no effect") == 1
        for _ in range(2):
            with tf.Graph().as_default():
                ops.pop_datastream_infeed_dequeue(*named, prefetch_depth=2)
        with pytest.raises(TypeError, match="prefetch_dept"):
            ops.pop_datastream_infeed_dequeue(*named, prefetch_dept=2)

    assert (
        "`ipu_create_dataset_iterator(optimise_latency=)` has no effect" in caplog.text
    )
    assert caplog.text.count("`pop_datastream_infeed_dequeue(prefetch_depth=)`") == 1


def test_an_id_without_a_dataset_is_an_error():
    """It says what makes one."""
    with pytest.raises(ValueError, match="build ipu_create_dataset_iterator first"):
        gen_pop_datastream_ops.pop_datastream_infeed_dequeue("none", [], [])


@pytest.mark.parametrize("style", STYLES)
def test_sums_of_iterations(style):
    """Zeros, and at each third the sum of three: it is what the loop adds up."""
    with on(1, style) as ready:

        def body(i, seen):
            total = gen_poputil_ops.ipu_stateful_gradient_accumulate(i, 3, False)
            return i + 1, tf.concat([seen[1:], [total]], 0)

        run = ready.build(
            lambda n: ready.repeat(n, body, [1.0, tf.zeros([6])]), np.int32(6)
        )
        for _ in range(2):
            _, seen = run(np.int32(6))
            assert seen.tolist() == [0, 0, 6, 0, 0, 15]
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="with 4 iterations"
        ):
            run(np.int32(4))


@pytest.mark.parametrize("style", STYLES)
def test_sums_with_momentum(style):
    """Ones in groups of 5: 5, and then 0.8 * 5 + 5; the variable ends at that."""
    with on(1, style) as ready:
        accum = ready.variable(np.float32(0.0), "accum")

        def body(seen):
            found = gen_poputil_ops.ipu_stateful_gradient_accumulate_with_momentum(
                accum.handle, tf.constant(1.0), 0.8, 5
            )
            return tf.concat([seen[1:], [found]], 0)

        seen = only(
            ready.run(lambda x: ready.repeat(10, body, [x]), np.zeros(10, np.float32))
        )
        assert seen.tolist() == [0, 0, 0, 0, 5, 0, 0, 0, 0, 9]
        assert ready.read(accum) == 9.0


def test_parts_of_an_accumulation():
    """Zeros, a scaled sum in the accumulator's dtype, and what does nothing."""
    variable = tf.Variable(tf.ones([2], tf.float16))
    zeros = gen_poputil_ops.gradient_accumulator_create(variable, tf.float32)
    total = gen_poputil_ops.gradient_accumulator_add_with_scale(
        zeros + 2, tf.ones([2], tf.float16), 0.5
    )

    assert total.dtype == tf.float32
    assert gen_poputil_ops.gradient_accumulator_sink(total).numpy().tolist() == [2, 2]
    again = gen_poputil_ops.gradient_accumulator_create(variable.handle, tf.float32)
    assert again.numpy().tolist() == [0, 0]
    made = gen_poputil_ops.gradient_accumulator_create_from_shape([3], tf.int32)
    assert made.numpy().tolist() == [0, 0, 0]
    gen_poputil_ops.gradient_accumulation_count(4)


@pytest.mark.parametrize("style", ["eager", *STYLES])
def test_what_gives_back_its_inputs(style):
    """A barrier, whose gradients may have one, and a hint; the wait has no result."""

    def net(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            one, two = gen_poputil_ops.ipu_barrier([x, x * 2.0], True)
            (same,) = gen_poputil_ops.ipu_assume_equal_across_replicas([one * two])
        gen_poputil_ops.device_sync()
        return one, two, same, tape.gradient(same, x)

    if style == "eager":
        found = net(tf.constant(3.0))
    else:
        with on(1, style) as ready:
            found = ready.run(net, 3.0)
    assert [float(each) for each in found] == [3.0, 6.0, 18.0, 12.0]
