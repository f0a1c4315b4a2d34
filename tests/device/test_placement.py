"""What the queues know of the device: ordinals, flags, and when to attach.

queues --device_hooks--> placement --> flags, system
"""

import logging
import sys
from contextlib import nullcontext

import children
import pytest
import tensorflow as tf
from helpers import DEADLOCK_S

from ipufeed.device import queue_hooks
from ipufeed.device.config.config import IPUConfig
from ipufeed.device.config.enums import DeviceConnectionType
from ipufeed.device.program import compiler as ipu_compiler
from ipufeed.device.program import loops
from ipufeed.device.program.scopes import ipu_scope
from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.device.system import system
from ipufeed.queues import IPUInfeedQueue, IPUOutfeedQueue
from ipufeed.queues.hooks import DeviceHooks, device_hooks


@pytest.fixture
def attached(caplog):
    """The attach lines that have been logged."""
    caplog.set_level(logging.INFO, "ipufeed")
    return lambda: [line for line in caplog.messages if "attached to" in line]


def configure(**attributes):
    config = IPUConfig()
    for name, value in attributes.items():
        setattr(config, name, value)
    config.configure_ipu_system()


def test_every_question_of_the_queues_is_answered():
    """Importing ipufeed puts the device's answers in the place of the defaults."""
    defaults = DeviceHooks()

    for name in defaults.__dataclass_fields__:
        assert getattr(device_hooks, name) is not getattr(defaults, name), name
        assert getattr(device_hooks, name) is getattr(queue_hooks, name)


def test_the_ordinal_of_a_queue_is_the_strategys_or_zero():
    """Where the queue names none."""
    assert queue_hooks.default_ordinal() == 0
    with IPUStrategy("/device:IPU:6").scope():
        assert queue_hooks.default_ordinal() == 6


@pytest.mark.parametrize("queue", [IPUInfeedQueue, IPUOutfeedQueue])
def test_an_ipu_that_is_not_configured_is_refused(clean_system, queue):
    """As soon as something is configured; before, each of the sixteen can be used."""
    arguments = [tf.data.Dataset.from_tensors(1.0)] if queue is IPUInfeedQueue else []
    queue(*arguments, device_ordinal=5)
    configure(auto_select_ipus=[1, 2])
    queue(*arguments, device_ordinal=1)

    with pytest.raises(ValueError, match="/device:IPU:5 has not been configured, only"):
        queue(*arguments, device_ordinal=5)


@pytest.mark.parametrize(
    ("text", "threads"),
    [("", 0), ("--max_infeed_threads=3", 3), ("--max_infeed_threads=-1", 0)],
)
def test_the_number_of_infeed_threads_is_the_flags(flags, text, threads):
    """0 stands for TensorFlow's default."""
    flags(text)

    assert queue_hooks.infeed_threads() == threads


def test_null_data_is_the_flags(flags):
    """Off without it."""
    flags("")
    assert not queue_hooks.null_data_feed()
    flags("--null_data_feed")
    assert queue_hooks.null_data_feed()


@pytest.mark.parametrize(
    ("text", "infeed", "outfeed"),
    [
        ("", False, False),
        ("--use_synthetic_data", True, True),
        ("--synthetic_data_categories=infeed", True, False),
        ("--synthetic_data_categories=outfeed,seed", False, True),
        ("--synthetic_data_categories=parameters", False, False),
    ],
)
def test_synthetic_data_are_the_flags(flags, text, infeed, outfeed):
    """All of them, or by category."""
    flags(text)

    assert (queue_hooks.synthetic_infeed() is not None) == infeed
    assert queue_hooks.synthetic_outfeed() == outfeed


def test_an_ipu_is_attached_to_when_it_is_configured(clean_system, attached):
    """Once, with the line that programs look for; running adds none."""
    configure(auto_select_ipus=1)
    with tf.device("/device:IPU:0"):
        _ = tf.constant(1.0) + 1.0

    assert attached() == [
        "TensorFlow device /device:IPU:0 attached to 1 IPU with Poplar device ID: 0"
    ]


def test_an_ipu_on_demand_is_attached_to_when_it_first_runs(clean_system, attached):
    """Not when it is configured, and once."""
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.device_connection.type = DeviceConnectionType.ON_DEMAND
    config.configure_ipu_system()
    assert attached() == []
    for _ in range(2):
        with tf.device("/device:IPU:0"):
            _ = tf.constant(1.0) + 1.0

    assert len(attached()) == 1
    assert "attached to 2 IPUs" in attached()[0]


def test_after_a_reset_an_ipu_is_attached_to_again(clean_system, attached):
    """What was known of the first use is forgotten."""
    for _ in range(2):
        configure(auto_select_ipus=1)
        system.reset_ipu_configuration()

    assert len(attached()) == 2


def test_a_program_on_an_ipu_that_is_not_configured_is_refused(clean_system):
    """Also where no queue and no scope has looked: TensorFlow's own device scope."""
    configure(auto_select_ipus=1)
    with (
        tf.device("/device:IPU:9"),
        pytest.raises(
            tf.errors.FailedPreconditionError,
            match="/device:IPU:9 has not been configured, only /device:IPU:0",
        ),
    ):
        _ = tf.constant(1.0) + 1.0


def test_a_device_for_compilation_only_runs_nothing(clean_system):
    """With the error of the original, and its type."""
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = DeviceConnectionType.NEVER
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()

    x = tf.constant(1.0)

    with (
        tf.device("/device:IPU:0"),
        pytest.raises(
            tf.errors.InvalidArgumentError,
            match="a device that was configured for compilation only",
        ),
    ):
        tf.function(lambda: x * 2.0)()


def floats():
    return tf.data.Dataset.range(4).map(lambda n: tf.cast(n, tf.float32))


WRONG = (
    r"(In|Out)feed queue '\w+' belongs to /device:IPU:{0}, and the program that uses it "
    r"is built for /device:IPU:{1}. Make the queue with `device_ordinal={1}`"
)


def uses_of(ordinal):
    """A computation for an infeed of that IPU, and one for an outfeed."""
    infeed = IPUInfeedQueue(floats(), device_ordinal=ordinal)
    outfeed = IPUOutfeedQueue(device_ordinal=ordinal)
    return {
        "infeed": lambda: loops.repeat(2, lambda x, y: x + y, [0.0], infeed),
        "outfeed": lambda: loops.repeat(
            2, lambda x: (x + 1.0, outfeed.enqueue(x)), [0.0]
        ),
    }


@pytest.mark.parametrize("kind", ["infeed", "outfeed"])
@pytest.mark.parametrize("jit", [True, False], ids=["compiled", "executor"])
@pytest.mark.parametrize(("own", "other"), [(0, 1), (3, 0)])
def test_a_program_of_another_ipu_is_refused_when_it_is_traced(kind, jit, own, other):
    """In a strategy's scope; that of the queue's IPU runs it."""
    program = tf.function(uses_of(own)[kind], jit_compile=jit)
    strategy = IPUStrategy(f"/device:IPU:{other}")
    with strategy.scope(), pytest.raises(ValueError, match=WRONG.format(own, other)):
        strategy.run(program)
    strategy = IPUStrategy(f"/device:IPU:{own}")
    if kind == "outfeed":
        with strategy.scope():
            assert float(strategy.run(program)) == 2.0


@pytest.mark.parametrize("kind", ["infeed", "outfeed"])
@pytest.mark.parametrize("place", ["around", "inside", "before"])
def test_a_graph_for_another_ipu_is_refused_when_it_is_built(kind, place):
    """With the scope around the call, in the computation, or of what is returned."""
    with tf.Graph().as_default():
        use = uses_of(0)[kind]
        with ipu_scope("/device:IPU:1"):
            there = tf.constant(1.0) + 1.0

        def inside():
            with ipu_scope("/device:IPU:1"):
                return use()

        def net():
            if place == "before":
                return use(), there
            return inside() if place == "inside" else use()

        scope = ipu_scope("/device:IPU:1") if place == "around" else nullcontext()
        with scope, pytest.raises(ValueError, match=WRONG.format(0, 1)):
            ipu_compiler.compile(net)


@pytest.mark.parametrize("kind", ["infeed", "outfeed"])
def test_a_graph_that_names_its_ipu_last_is_checked_for_its_own_queues(kind):
    """Not for those of a program that was built before."""
    with tf.Graph().as_default():
        uses_of(0)[kind]()
        with ipu_scope("/device:IPU:1"):
            there = tf.constant(1.0) + 1.0
        use = uses_of(1)[kind]
        ipu_compiler.compile(lambda: (use(), there))


def test_an_eager_enqueue_on_another_ipu_is_refused():
    """It is a program of its own."""
    outfeed = IPUOutfeedQueue(device_ordinal=1)
    with (
        ipu_scope("/device:IPU:0"),
        pytest.raises(ValueError, match=WRONG.format(1, 0)),
    ):
        outfeed.enqueue(1.0)
    with ipu_scope("/device:IPU:1"):
        outfeed.enqueue(1.0)

    assert outfeed.dequeue().numpy().tolist() == [1.0]


def test_an_infeed_that_is_an_argument_is_checked_too():
    """The function knows it by its spec."""
    infeed = IPUInfeedQueue(floats(), device_ordinal=2)
    assert infeed.initializer is None

    @tf.function(jit_compile=True)
    def program(queue):
        return loops.repeat(2, lambda x, y: x + y, [0.0], queue)

    with (
        ipu_scope("/device:IPU:0"),
        pytest.raises(ValueError, match="/device:IPU:2, and"),
    ):
        program(infeed)
    with ipu_scope("/device:IPU:2"):
        assert float(program(infeed)) == 1.0


def test_a_variable_that_is_used_by_reference_is_refused_on_an_ipu():
    """As on an IPU; on the CPU, and as a resource, it works."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.device("/device:CPU:0"):
            host = tf.compat.v1.get_variable("a", initializer=1.0, use_resource=False)
        with tf.device("/device:IPU:0"):
            kept = tf.compat.v1.get_variable("b", initializer=2.0, use_resource=True)
        session.run([host.initializer, kept.initializer])
        assert session.run([host, kept]) == [1, 2]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.device("/device:IPU:0"):
            refused = tf.compat.v1.get_variable(
                "b", initializer=2.0, use_resource=False
            )
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=r"Cannot assign a device for operation b: .*use_resource=True",
        ):
            session.run(refused.initializer)


@pytest.mark.parametrize(
    "make",
    [lambda: tf.Variable(1.0), lambda: tf.random.Generator.from_seed(1).state],
    ids=["variable", "generator"],
)
def test_a_variable_of_the_host_is_refused_with_the_remedy(make):
    """A program on the IPU cannot reach it; the error says where to create it."""
    strategy, variable = IPUStrategy(), make()

    @tf.function(jit_compile=True)
    def program():
        for _ in tf.range(2):
            variable.assign_add(tf.ones_like(variable))

    with strategy.scope(), pytest.raises(tf.errors.InvalidArgumentError) as found:
        strategy.run(program)

    assert "is on the host, and the program runs on /device:IPU:0" in str(found.value)
    assert "inside `with strategy.scope():`" in found.value.message


IN_TWO_PLACES = """
import tensorflow as tf
import ipufeed as ipu

v1 = tf.compat.v1
with tf.Graph().as_default(), v1.Session() as session:
    with tf.device("cpu"):
        steps = v1.train.get_or_create_global_step()

    def net():
        weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        return weight + 0.0, optimizer.minimize(weight * weight, global_step=steps)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(net)
    try:
        session.run(v1.global_variables_initializer())
        session.run(program)
    except tf.errors.InvalidArgumentError as error:
        print(error)
"""


def test_the_first_error_of_a_version_1_program_names_the_variables_of_the_host():
    """TensorFlow names one that is in its place. The program has no queue."""
    done = children.run(
        [sys.executable, "-c", IN_TWO_PLACES],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
    )

    assert (
        "A program of /device:IPU:0 uses these variables of the host: global_step."
        in (done.stdout)
    )
    assert 'inside `with ipu_scope("/device:IPU:0"):`' in done.stdout
