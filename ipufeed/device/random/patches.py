"""What is changed in TensorFlow, and in Keras, so that programs draw their own seeds.

- The functions that build stateful random ops, in tensorflow.python.ops.gen_random_ops,
  gen_image_ops, gen_candidate_sampling_ops and tf.raw_ops, build those of ops.py, of
  samplers.py and of candidates.py for an IPU.
- Those that the device's seed does not reach, and tf.random.Generator, go to
  unreached.py.
- StructuredFunctionWrapper of tf.data: what it traces is for the host, in an IPU's scope
  too.
- make_function_context: a tf.function is traced separately for IPUs, and there separately
  as a program and as a part of one.
- trace_function: a function that draws seeds is traced once for each call inside a program,
  since its seed ops are numbered as parts of it.
- Keras's SeedGenerator.next: on an IPU whose seed has been reset it gives that device's
  seeds.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ipufeed.device.random import candidates, samplers, unreached
from ipufeed.device.random import ops as random_ops
from ipufeed.device.system.seeds import on_seed
from ipufeed.tf_patches.changes import replace

KERAS_SEEDS = "keras.src.random.seed_generator"

# Makes a function's trace another one than those that there are.
_fresh: contextvars.ContextVar[object] = contextvars.ContextVar(
    "ipufeed_fresh_trace", default=None
)


@functools.cache
def install() -> None:
    """Makes the changes, once."""
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

    for module, functions in (
        (gen_random_ops, {**random_ops.REWRITTEN, **samplers.RANDOM}),
        (gen_image_ops, samplers.IMAGE),
        (gen_candidate_sampling_ops, candidates.REWRITTEN),
    ):
        for name, rewritten in functions.items():
            _replace_op(module, name, _rewriting(rewritten))
    for name, way_out in unreached.CANDIDATES.items():
        noted = _noting(f"tf.random.{name}", way_out)
        _replace_op(gen_candidate_sampling_ops, name, noted)
    for name, way_out in unreached.POOLING.items():
        _replace_op(gen_nn_ops, name, _noting(f"tf.nn.{name}", way_out, True))
    unreached.note_generators(replace)
    on_seed(unreached.warn_of_built)
    wrapper = structured_function.StructuredFunctionWrapper
    replace(wrapper, "__init__", _for_host(wrapper.__init__))
    make_context = function_context.make_function_context
    replace(function_context, "make_function_context", _apart(make_context))
    trace = tracing_compilation.trace_function
    replace(tracing_compilation, "trace_function", _once_each(trace))


def _replace_op(module: Any, name: str, change: Callable[[Any], Any]) -> None:
    """Changes what builds an op, by each name that it has."""
    import tensorflow as tf

    raw = "".join(word.capitalize() for word in name.split("_"))
    for owner, attribute in ((module, name), (module, raw), (tf.raw_ops, raw)):
        replace(owner, attribute, change(getattr(owner, attribute)))


def _rewriting(rewritten: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda original: _either(original, rewritten)


def _noting(name: str, way_out: str, is_seeded: bool = False) -> Callable[[Any], Any]:
    return lambda original: unreached.noted(original, name, way_out, is_seeded)


def _either(original: Callable[..., Any], rewritten: Callable[..., Any]) -> Any:
    """Builds the one on the host, the other on an IPU."""

    @functools.wraps(original)
    def build(*arguments: Any, **keywords: Any) -> Any:
        chosen = rewritten if random_ops.on_ipu() else original
        return chosen(*arguments, **keywords)

    return build


def _for_host(method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(method)
    def trace(*arguments: Any, **keywords: Any) -> None:
        with random_ops.on_host():
            method(*arguments, **keywords)

    return trace


def _apart(make_context: Callable[..., Any]) -> Callable[..., Any]:
    """Adds to the key of a function's traces what the numbers of its seeds depend on.

    It is called by each call of a tf.function: of those that run for an IPU, too.
    """
    from tensorflow.core.function.polymorphism.function_cache import FunctionContext
    from tensorflow.python.eager.context import executing_eagerly

    @functools.wraps(make_context)
    def make(*arguments: Any, **keywords: Any) -> Any:
        context = make_context(*arguments, **keywords)
        if not random_ops.on_ipu():
            return context
        patch_keras()
        place = "ipu program" if executing_eagerly() else "part of an ipu program"
        fresh = _fresh.get()
        if fresh is not None:
            _fresh.set(None)  # functions that this one calls are traced as they need
        return FunctionContext((context.context, place, fresh), context.scope_type)

    return make


@contextlib.contextmanager
def _as_fresh_trace() -> Iterator[None]:
    token = _fresh.set(object())
    try:
        yield
    finally:
        _fresh.reset(token)


def _once_each(trace_function: Callable[..., Any]) -> Callable[..., Any]:
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


def patch_keras() -> None:
    """Changes Keras's seeds, once it has been imported."""
    module = sys.modules.get(KERAS_SEEDS)
    generator = getattr(module, "SeedGenerator", None)
    if generator is None or hasattr(generator.next, "_ipufeed"):
        return
    replace(generator, "next", _of_device(generator.next))


def _of_device(method: Callable[..., Any]) -> Callable[..., Any]:
    """Keras's seed, unless the device's has been reset; Keras's state goes on."""

    @functools.wraps(method)
    def following(self: Any, *arguments: Any, **keywords: Any) -> Any:
        import tensorflow as tf

        kept = method(self, *arguments, **keywords)
        if not (tf.is_tensor(kept) and random_ops.on_ipu()):
            return kept
        # As Keras makes int32 of its seeds.
        own = tf.cast(tf.math.floormod(kept, tf.int32.max - 1), tf.int32)
        return random_ops.draw(0, self._initial_seed or 0, own)

    following._ipufeed = True  # type: ignore[attr-defined]
    return following
