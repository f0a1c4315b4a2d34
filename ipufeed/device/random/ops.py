"""Random operations on an IPU: what `reset_ipu_seed` makes repeatable.

    tf.nn.dropout, tf.random.normal, ...
        -> RandomUniform, RandomStandardNormal, ...     TensorFlow's stateful ops
             on the host, in a dataset: as they are
             on an IPU: IpufeedSeed -> the numbers of that seed

The seed of an op comes from the device's seed, the run, the replica, the op's number in its
program, and how often the op has run (ipufeed/cc/core/seeds.h). Floats are the numbers that
TensorFlow's stateless ops give on the CPU for that seed, compiled or not. XLA has another
generator, so a compiled program computes them in a call of the native library.

Threads: each function builds a part of the current graph; in eager mode it runs at once.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ipufeed import _native
from ipufeed.device.program import outside_compilation
from ipufeed.queues import interrupt
from ipufeed.queues.placement import current_ordinal

_WORD = 2**64


class Distribution(enum.IntEnum):
    """As in ipufeed/cc/random/random_numbers.h."""

    UNIFORM = 0
    NORMAL = 1
    TRUNCATED_NORMAL = 2
    GUMBEL = 3


_on_host: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipufeed_on_host", default=False
)


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Within it a function of a dataset is traced, which the host runs."""
    token = _on_host.set(True)
    try:
        yield
    finally:
        _on_host.reset(token)


def mix(number: int) -> int:
    """One step of splitmix64, as in ipufeed/cc/core/seeds.h."""
    z = (number + 0x9E3779B97F4A7C15) % _WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % _WORD
    return z ^ z >> 31


def on_ipu() -> bool:
    """Whether an op that is built now belongs to an IPU."""
    return not _on_host.get() and current_ordinal() is not None


def _is_function(graph: Any, func_graph: Any) -> bool:
    return isinstance(graph, func_graph.FuncGraph)


def _program() -> tuple[Any, list[Any]]:
    """What counts the seed ops of the program that is built, and the functions in it.

    The outermost function of TensorFlow 2, from the current one outwards; in a version 1
    graph what `ipu_compiler.compile` builds, or the graph. Initializers of variables
    are not a part of a program, though they may be built inside it.
    """
    from tensorflow.python.framework import func_graph, ops

    graph = ops.get_default_graph()
    functions = []
    while _is_function(graph, func_graph):
        functions.append(graph)
        graph = graph.outer_graph
    if functions and ops.executing_eagerly_outside_functions():
        return functions[-1], functions
    scope = f"/{ops.get_default_graph().get_name_scope()}/"
    building = (
        None if "/Initializer/" in scope else outside_compilation.current_program()
    )
    return building or graph, functions


def next_number(kind: str = "seed_ops") -> int:
    """Numbers the ops of a kind in the program, from 0 in the order of the trace."""
    program, functions = _program()
    counter = f"_ipufeed_{kind}"
    number = getattr(program, counter, 0)
    setattr(program, counter, number + 1)
    for function in functions:
        function._ipufeed_seeds_of_own = program is function
    return int(number)


def draw(seed1: int = 0, seed2: int = 0, own: Any = None) -> Any:
    """Draws the seed of a random op of the program that is being built.

    Args:
        seed1: The seed of the graph, as tf.random.set_seed gives it to ops.
        seed2: The seed of the op.
        own: The seed that the op would have on the host, int32 [2]: it keeps that unless
            the device's seed has been reset. Default: None, for ops without one.

    Returns:
        int32 [2].
    """
    import tensorflow as tf

    number = 0
    if not tf.executing_eagerly():
        interrupt.watch()  # reports the end of functions to the native core
        number = next_number()
    if seed1 or seed2:
        number ^= mix((2**32 * seed1 + seed2) % _WORD)
    if number >= _WORD // 2:
        number -= _WORD
    given = tf.zeros([2], tf.int32) if own is None else own
    return _native.load().ipufeed_seed(given, o=number, keeps_own=own is not None)


def numbers(shape: Any, of_seed: Any, dtype: Any, distribution: Distribution) -> Any:
    """Random floats of a seed."""
    import tensorflow as tf

    return _native.load().ipufeed_random(
        tf.cast(shape, tf.int32),
        of_seed,
        dtype=dtype,
        distribution=int(distribution),
    )


def _floats(
    distribution: Distribution,
    shape: Any,
    dtype: Any,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Any:
    import tensorflow as tf

    with tf.name_scope(name or distribution.name.lower()):
        drawn = draw(seed or 0, seed2 or 0)
        return numbers(shape, drawn, dtype, distribution)


def _integers(
    shape: Any,
    minval: Any,
    maxval: Any,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Any:
    import tensorflow as tf

    with tf.name_scope(name or "random_uniform_int"):
        low = tf.convert_to_tensor(minval)
        high = tf.convert_to_tensor(maxval, low.dtype)
        drawn = draw(seed or 0, seed2 or 0)
        return tf.random.stateless_uniform(
            shape, drawn, low, high, low.dtype, alg="philox"
        )


def _categories(
    logits: Any,
    num_samples: Any,
    seed: int | None = 0,
    seed2: int | None = 0,
    output_dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Of each row, the largest of the logits with Gumbel noise."""
    import tensorflow as tf

    with tf.name_scope(name or "multinomial"):
        scores = tf.cast(logits, tf.float32)
        rows, classes = tf.unstack(tf.shape(scores), 2)
        shape = tf.stack([rows, tf.cast(num_samples, tf.int32), classes])
        drawn = draw(seed or 0, seed2 or 0)
        noise = numbers(shape, drawn, tf.float32, Distribution.GUMBEL)
        return tf.argmax(
            tf.expand_dims(scores, 1) + noise,
            axis=-1,
            output_type=output_dtype or tf.int64,
        )


def _shuffled(
    value: Any,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Any:
    import tensorflow as tf

    with tf.name_scope(name or "random_shuffle"):
        value = tf.convert_to_tensor(value)
        if value.shape.rank == 0:
            return tf.identity(value)
        drawn = draw(seed or 0, seed2 or 0)
        keys = numbers(tf.shape(value)[:1], drawn, tf.float32, Distribution.UNIFORM)
        return tf.gather(value, tf.argsort(keys, stable=True))


# By the name in TensorFlow's module of ops.
REWRITTEN: dict[str, Callable[..., Any]] = {
    "random_uniform": functools.partial(_floats, Distribution.UNIFORM),
    "random_standard_normal": functools.partial(_floats, Distribution.NORMAL),
    "truncated_normal": functools.partial(_floats, Distribution.TRUNCATED_NORMAL),
    "random_uniform_int": _integers,
    "multinomial": _categories,
    "random_shuffle": _shuffled,
}
