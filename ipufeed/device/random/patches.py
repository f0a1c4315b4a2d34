"""Changes of TensorFlow and Keras, so that programs draw the device's seeds.

- The functions that build stateful random ops, in tensorflow.python.ops.gen_random_ops,
  gen_image_ops, gen_candidate_sampling_ops and tf.raw_ops, build those of ops.py,
  samplers.py and candidates.py for an IPU.
- Ops that the device's seed does not reach, and tf.random.Generator, are wrapped by
  unreached.py.
- StructuredFunctionWrapper of tf.data: its traces are for the host, also in an IPU's scope.
- make_function_context: a tf.function is traced separately for IPUs, and there separately
  as a program and as a part of one.
- trace_function: a function that draws seeds is traced for each call inside a program,
  since its seed ops are numbered within the program.
- tf.recompute_grad: recomputed.py keeps the seeds of the forward.
- Keras's SeedGenerator.next: on an IPU whose seed has been reset it returns that device's
  seeds.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import structured_function
from tensorflow.python.eager.polymorphic_function import (
    function_context,
    tracing_compilation,
)
from tensorflow.python.ops import (
    gen_candidate_sampling_ops,
    gen_image_ops,
    gen_nn_ops,
    gen_random_ops,
)

from ipufeed.device.random import candidates, recomputed, samplers, unreached
from ipufeed.device.random import ops as random_ops
from ipufeed.device.system.seeds import on_seed
from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Nest, NestFunction

KERAS_SEEDS = "keras.src.random.seed_generator"

# Part of the key of a function's traces: a new object forces a new trace.
_fresh: contextvars.ContextVar[object] = contextvars.ContextVar(
    "ipufeed_fresh_trace", default=None
)


@functools.cache
def install() -> None:
    """Makes the changes, once."""
    for module, functions in (
        (gen_random_ops, {**random_ops.REWRITTEN, **samplers.RANDOM}),
        (gen_image_ops, samplers.IMAGE),
        (gen_candidate_sampling_ops, candidates.REWRITTEN),
    ):
        for name, rewritten in functions.items():
            _replace_op(module, name, _rewriting(rewritten))
    for name, remedy in unreached.CANDIDATES.items():
        noted = _noting(f"tf.random.{name}", remedy)
        _replace_op(gen_candidate_sampling_ops, name, noted)
    for name, remedy in unreached.POOLING.items():
        _replace_op(gen_nn_ops, name, _noting(f"tf.nn.{name}", remedy, True))
    unreached.note_generators(replace)
    on_seed(unreached.warn_of_built)
    wrapper = structured_function.StructuredFunctionWrapper
    replace(wrapper, "__init__", _for_host(wrapper.__init__))
    make_context = function_context.make_function_context
    replace(function_context, "make_function_context", _apart(make_context))
    trace = tracing_compilation.trace_function
    replace(tracing_compilation, "trace_function", _once_each(trace))
    recomputed.install()


def _replace_op(module: Any, name: str, change: Callable[[Any], Any]) -> None:
    """Replaces the function that builds an op, under each of its names."""
    raw = "".join(word.capitalize() for word in name.split("_"))
    for owner, attribute in ((module, name), (module, raw), (tf.raw_ops, raw)):
        replace(owner, attribute, change(getattr(owner, attribute)))


def _rewriting(rewritten: NestFunction) -> Callable[[NestFunction], NestFunction]:
    """Returns a function that makes `original` build `rewritten` on an IPU."""

    def change(original: NestFunction) -> NestFunction:
        @functools.wraps(original)
        def build(*arguments: Any, **keywords: Any) -> Nest:
            is_drawn = recomputed.draws(random_ops.on_ipu)
            chosen = rewritten if is_drawn else original
            return chosen(*arguments, **keywords)

        return build

    return change


def _noting(
    name: str, remedy: str, is_seeded: bool = False
) -> Callable[[NestFunction], NestFunction]:
    return lambda original: unreached.noted(original, name, remedy, is_seeded)


def _for_host(method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(method)
    def trace(*arguments: Any, **keywords: Any) -> None:
        # In a version 1 graph a function has the device of a strategy's scope around it.
        inherits = not tf.executing_eagerly() and random_ops.on_ipu()
        place = tf.device(None) if inherits else contextlib.nullcontext()
        with place, random_ops.on_host():
            method(*arguments, **keywords)

    return trace


def _apart(make_context: Callable[..., Any]) -> NestFunction:
    """Adds to the key of a function's traces the context that its seeds depend on.

    Each call of a tf.function calls it.
    """
    from tensorflow.core.function.polymorphism.function_cache import FunctionContext
    from tensorflow.python.eager.context import executing_eagerly

    @functools.wraps(make_context)
    def make(*arguments: Any, **keywords: Any) -> Any:
        context = make_context(*arguments, **keywords)
        if not random_ops.on_ipu():
            return context
        _patch_keras()
        place = "ipu program" if executing_eagerly() else "part of an ipu program"
        fresh = _fresh.get()
        if fresh is not None:
            _fresh.set(None)  # called functions need not be traced again
        return FunctionContext((context.context, place, fresh), context.scope_type)

    return make


@contextlib.contextmanager
def _as_fresh_trace() -> Iterator[None]:
    token = _fresh.set(object())
    try:
        yield
    finally:
        _fresh.reset(token)


def _once_each(trace_function: NestFunction) -> NestFunction:
    @functools.wraps(trace_function)
    def trace(*arguments: Any, **keywords: Any) -> Any:
        function = trace_function(*arguments, **keywords)
        is_program = getattr(function.graph, "_ipufeed_seeds_of_own", None)
        if is_program is None or is_program:  # no seeds, or a program by itself
            return function
        if getattr(function.graph, "_ipufeed_called", False):
            with _as_fresh_trace():
                function = trace_function(*arguments, **keywords)
        function.graph._ipufeed_called = True
        return function

    return trace


def _patch_keras() -> None:
    """Changes Keras's seeds, once Keras has been imported."""
    module = sys.modules.get(KERAS_SEEDS)
    generator = getattr(module, "SeedGenerator", None)
    if generator is None or hasattr(generator.next, "_ipufeed"):
        return
    replace(generator, "next", _of_device(generator.next))


def _of_device(method: Callable[..., Any]) -> NestFunction:
    """Returns Keras's seed unless the device's was reset; Keras's state advances."""

    @functools.wraps(method)
    def following(self: Any, *arguments: Any, **keywords: Any) -> Any:
        kept = method(self, *arguments, **keywords)
        if not (tf.is_tensor(kept) and recomputed.draws(random_ops.on_ipu)):
            return kept
        # Keras's conversion of its seeds to int32.
        own = tf.cast(tf.math.floormod(kept, tf.int32.max - 1), tf.int32)
        return random_ops.draw(0, self._initial_seed or 0, own)

    following._ipufeed = True  # type: ignore[attr-defined]
    return following
