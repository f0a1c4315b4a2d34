"""The key: what must not matter, and what must."""

from __future__ import annotations

import pytest
import tensorflow as tf
from lowering import lowering

from ipufeed.executable.explanation.explain import explain_programs
from ipufeed.executable.hlo.hlo import Module
from ipufeed.executable.program.key import canonical


@pytest.fixture(scope="module")
def lower():
    with lowering() as lowered:
        yield lowered


ROWS = [[1.0] * 4] * 3


def named_arguments(first, second):
    """sin(first) + cos(second), with arguments called so."""
    names = {"tf": tf}
    text = f"lambda {first}, {second}: tf.sin({first}) + tf.cos({second})"
    return eval(text, names)


def scoped(first, second, inner=1.0):
    """atan2(3 sin x, 4 exp x), each operand in a scope of such a name."""

    def program(x):
        with tf.name_scope(first):
            sine = tf.sin(x) * 3.0
        with tf.name_scope(second):
            power = tf.exp(x) * 4.0 * inner
        return tf.math.atan2(sine, power)

    return program


def with_dead_code(dead):
    """2 x, and something whose result is unused."""

    def program(x):
        if dead:
            tf.tanh(x) * 7.0  # unused
        return x * 2.0

    return program


@pytest.mark.parametrize(
    ("one", "other", "arguments"),
    [
        (named_arguments("a", "b"), named_arguments("b", "a"), 2),
        (named_arguments("z", "y"), named_arguments("y", "z"), 2),
        (scoped("a", "b"), scoped("z", "y"), 1),
        (with_dead_code(False), with_dead_code(True), 1),
    ],
    ids=["arguments", "arguments backwards", "scopes", "dead code"],
)
def test_names_and_unused_values_do_not_matter(lower, one, other, arguments):
    """TensorFlow lowers in an order that depends on names; the key does not."""
    given = [ROWS] * arguments
    assert lower(one, *given).key == lower(other, *given).key


def test_which_argument_is_which_matters(lower):
    """The same names at other places are another program."""
    one = lower(lambda a, b: tf.sin(a) + tf.cos(b), ROWS, ROWS)
    other = lower(lambda a, b: tf.sin(b) + tf.cos(a), ROWS, ROWS)
    assert one.key != other.key


def test_effects_matter_and_their_order_does(lower):
    """What gives no result but does something is a part of the program."""
    import ipufeed

    def program(*values):
        queues = [ipufeed.IPUOutfeedQueue() for _ in range(2)]

        def body(x):
            for queue, value in zip(queues, values, strict=False):
                queue.enqueue(value)
            return x + 1.0

        def run(x):
            return ipufeed.loops.repeat(3, body, [x])

        return run

    constants = [tf.constant(1.5).numpy(), tf.constant([2.5, 3.5]).numpy()]
    keys = [
        lower(program(*values), ROWS).key.number
        for values in ([], constants[:1], constants, constants[::-1])
    ]
    assert len(set(keys)) == 4
    assert keys[2] == lower(program(*constants), ROWS).key.number


def test_other_scopes_leave_explanations_true(lower):
    """Renaming scopes is not listed as other constants; what really changed is."""
    one = lower(scoped("a", "b"), ROWS)
    other = lower(scoped("z", "y", inner=0.5), ROWS)
    causes = [str(each) for each in explain_programs(one, other)]
    assert causes
    assert not any("3.0 -> 4.0" in each or "swapped" in each for each in causes), causes


def test_the_canonical_form_is_its_own(lower):
    """It is a whole program, and making it again changes nothing."""
    program = lower(scoped("a", "b"), ROWS)
    once = canonical(program.hlo)
    assert canonical(once) == once
    opcodes = sorted(each.opcode for each in Module.parse(once).instructions())
    assert {"sine", "exponential", "atan2"} <= set(opcodes)


@pytest.mark.parametrize(
    "damage", ["", "rubbish", "root", "operand", "callee", "cycle"]
)
def test_a_damaged_program_is_refused(lower, damage):
    """A reference to nothing, or in a circle, is an error and no crash."""
    from tensorflow.compiler.xla.service import hlo_pb2

    module = hlo_pb2.HloModuleProto.FromString(lower(scoped("a", "b"), ROWS).hlo)
    (entry,) = [
        each for each in module.computations if each.id == module.entry_computation_id
    ]
    if damage == "root":
        entry.root_id = 12345
    elif damage == "operand":
        entry.instructions[-1].operand_ids[0] = 12345
    elif damage == "callee":
        entry.instructions[-1].called_computation_ids.append(12345)
    elif damage == "cycle":
        entry.instructions[-1].called_computation_ids.append(entry.id)
    data = {"": b"", "rubbish": b"\xff" * 30}.get(damage, module.SerializeToString())
    with pytest.raises(ValueError, match="not a whole HloModuleProto"):
        canonical(data)
