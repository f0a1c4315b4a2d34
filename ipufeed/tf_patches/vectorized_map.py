"""Operations that tf.vectorized_map must not hold, since they have no vector form.

TensorFlow would build a loop over a queue operation, or leave it out, and would also run
the operation that it traced, once: an element is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ipufeed.tf_patches.changes import replace


@functools.cache
def refuse(is_refused: Callable[[Any], bool]) -> None:
    """Makes tf.vectorized_map raise ValueError when its function holds such an op."""
    from tensorflow.python.ops.parallel_for import pfor

    init = pfor.PFor.__init__

    @functools.wraps(init)
    def checked(
        self: Any,
        loop_var: Any,
        loop_len: Any,
        pfor_ops: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        found = next(filter(is_refused, pfor_ops), None)
        if found is not None:
            raise ValueError(
                f"tf.vectorized_map cannot hold '{found.name}' ({found.type}): its "
                "iterations have no order, and elements of a queue have one. Use "
                "tf.map_fn, or take and give whole batches outside of it."
            )
        init(self, loop_var, loop_len, pfor_ops, *args, **kwargs)

    replace(pfor.PFor, "__init__", checked)
