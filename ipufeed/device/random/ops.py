"""Random operations on an IPU, which `reset_ipu_seed` makes repeatable.

    tf.nn.dropout, tf.random.normal, ...
        -> RandomUniform, RandomStandardNormal, ...     TensorFlow's stateful ops
             on the host, in a dataset: unchanged
             on an IPU: IpufeedSeed -> random numbers of that seed

The seed of an op is derived from the device's seed, the run, the replica, the op's number
in its program, and the op's iteration (ipufeed/cc/core/seeds.h). Floats are those of
TensorFlow's stateless ops on the CPU for that seed, compiled or not. XLA has another
generator, so a compiled program computes them in a call of the native library.

Threads: each function builds a part of the current graph; in eager mode it runs at once.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import functools
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.framework import func_graph, ops

from ipufeed import _native
from ipufeed.device.program import outside_compilation
from ipufeed.device.random.recomputed import kept
from ipufeed.queues import interrupt
from ipufeed.queues.placement import current_device, current_ordinal
from ipufeed.tf_types import DType, FuncGraph, NestFunction, Shape, Tensor, TensorLike

_WORD = 2**64


class Distribution(enum.IntEnum):
    """The distributions of random floats, as in ipufeed/cc/random/random_numbers.h."""

    UNIFORM = 0
    NORMAL = 1
    TRUNCATED_NORMAL = 2
    GUMBEL = 3


_on_host: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipufeed_on_host", default=False
)


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Marks this context as the trace of a dataset's function, which the host runs."""
    token = _on_host.set(True)
    try:
        yield
    finally:
        _on_host.reset(token)


def mix(number: int) -> int:
    """Returns one step of splitmix64, as in ipufeed/cc/core/seeds.h."""
    z = (number + 0x9E3779B97F4A7C15) % _WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % _WORD
    return z ^ z >> 31


def on_ipu() -> bool:
    """Returns whether a new op belongs to an IPU.

    One without a device does if it is of a program of `ipu_compiler.compile`, which places
    it when the computation has been built. The initializer of a variable in it does not.
    """
    if _on_host.get():
        return False
    if current_ordinal() is not None:
        return True
    building = outside_compilation.current_program()
    is_placed_later = building is not None and not building.traced
    return is_placed_later and not current_device() and not _initializes()


def _initializes() -> bool:
    """Returns whether a new op belongs to the initializer of a variable."""
    return "/Initializer/" in f"/{ops.get_default_graph().get_name_scope()}/"


def _program() -> tuple[object, list[FuncGraph]]:
    """Returns the object with the current program's seed counter, and its functions.

    It is the outermost function of TensorFlow 2; in a version 1 graph the program of
    `ipu_compiler.compile`, or the graph. Initializers of variables are not part of a
    program, although they may be built inside it. The functions are those from the current
    one outwards.
    """
    graph = ops.get_default_graph()
    functions = []
    while isinstance(graph, func_graph.FuncGraph):
        functions.append(graph)
        graph = graph.outer_graph
    if functions and ops.executing_eagerly_outside_functions():
        return functions[-1], functions
    building = None if _initializes() else outside_compilation.current_program()
    return building or graph, functions


def next_number(kind: str = "seed_ops") -> int:
    """Returns the next number of a kind of op in the program, from 0 in trace order."""
    program, functions = _program()
    counter = f"_ipufeed_{kind}"
    number = getattr(program, counter, 0)
    setattr(program, counter, number + 1)
    for function in functions:
        function._ipufeed_seeds_of_own = program is function
    return int(number)


def draw(seed1: int = 0, seed2: int = 0, own: Tensor | None = None) -> Tensor:
    """Draws the seed of a random op of the program that is being built.

    Args:
        seed1: The seed of the graph, as tf.random.set_seed sets it.
        seed2: The seed of the op.
        own: The seed that the op has on the host, int32 [2]: it is used unless the
            device's seed has been reset. Default: None, for ops without one.

    Returns:
        int32 [2].
    """
    return kept(lambda: _draw(seed1, seed2, own))


def _draw(seed1: int, seed2: int, own: Tensor | None) -> Tensor:
    number = 0
    if not tf.executing_eagerly():
        interrupt.watch()  # it notifies the native core of the end of functions
        number = next_number()
    if seed1 or seed2:
        number ^= mix((2**32 * seed1 + seed2) % _WORD)
    if number >= _WORD // 2:
        number -= _WORD
    given = tf.zeros([2], tf.int32) if own is None else own
    return _native.load().ipufeed_seed(given, o=number, keeps_own=own is not None)


def numbers(
    shape: Shape, of_seed: Tensor, dtype: DType, distribution: Distribution
) -> Tensor:
    """Builds the op that returns random floats of a seed."""
    return _native.load().ipufeed_random(
        tf.cast(shape, tf.int32),
        of_seed,
        dtype=dtype,
        distribution=int(distribution),
    )


def _floats(
    distribution: Distribution,
    shape: Shape,
    dtype: DType,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Tensor:
    with tf.name_scope(name or distribution.name.lower()):
        drawn = draw(seed or 0, seed2 or 0)
        return numbers(shape, drawn, dtype, distribution)


def _integers(
    shape: Shape,
    minval: TensorLike,
    maxval: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Tensor:
    with tf.name_scope(name or "random_uniform_int"):
        low = tf.convert_to_tensor(minval)
        high = tf.convert_to_tensor(maxval, low.dtype)
        drawn = draw(seed or 0, seed2 or 0)
        return tf.random.stateless_uniform(
            shape, drawn, low, high, low.dtype, alg="philox"
        )


def _categories(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    output_dtype: DType | None = None,
    name: str | None = None,
) -> Tensor:
    """Samples from each row: the index of the largest logit plus Gumbel noise."""
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
    value: TensorLike,
    seed: int | None = 0,
    seed2: int | None = 0,
    name: str | None = None,
) -> Tensor:
    with tf.name_scope(name or "random_shuffle"):
        value = tf.convert_to_tensor(value)
        if value.shape.rank == 0:
            return tf.identity(value)
        drawn = draw(seed or 0, seed2 or 0)
        keys = numbers(tf.shape(value)[:1], drawn, tf.float32, Distribution.UNIFORM)
        return tf.gather(value, tf.argsort(keys, stable=True))


# Name of the function in TensorFlow's module of ops -> its replacement.
REWRITTEN: dict[str, NestFunction] = {
    "random_uniform": functools.partial(_floats, Distribution.UNIFORM),
    "random_standard_normal": functools.partial(_floats, Distribution.NORMAL),
    "truncated_normal": functools.partial(_floats, Distribution.TRUNCATED_NORMAL),
    "random_uniform_int": _integers,
    "multinomial": _categories,
    "random_shuffle": _shuffled,
}
