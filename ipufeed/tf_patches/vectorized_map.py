"""Refuses queue operations in tf.vectorized_map, as they have no vectorized form.

TensorFlow would build a loop over a queue operation, or drop it, and would also run the
traced operation once, which loses an element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ipufeed.tf_patches.changes import replace
from ipufeed.tf_types import Operation, Tensor


@functools.cache
def refuse(is_refused: Callable[[Operation], bool]) -> None:
    """Makes tf.vectorized_map raise ValueError if its function has a refused op."""
    from tensorflow.python.ops.parallel_for import pfor

    init = pfor.PFor.__init__

    @functools.wraps(init)
    def checked(
        self: Any,
        loop_var: Tensor,
        loop_len: Tensor,
        pfor_ops: list[Operation],
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
